"""Runs the launcher and fake engines as real processes, and ends all of them with the test."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import pytest

import epd_worker

ENGINE = str(Path(__file__).with_name("fake_engine.py"))
SOURCES = str(Path(epd_worker.__file__).parents[1])
PATIENCE = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(port: int, path: str, *, method: str = "GET") -> tuple[int, str]:
    """Return status and body; status 0 without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode().strip()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition; the time limit only ends a broken run."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@dataclass
class Engine:
    """A fake engine for the launcher to start; `role` and `name` as in EPD_GROUP."""

    name: str
    role: str
    options: list[str] = field(default_factory=list)
    port: int = field(default_factory=free_port)

    @property
    def command(self) -> list[str]:
        return [sys.executable, ENGINE, "--port", str(self.port), *self.options]

    @property
    def health_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/health"

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/metrics"

    def process(self, **changes: object) -> dict[str, object]:
        return {
            "name": self.name,
            "role": self.role,
            "command": self.command,
            "healthUrl": self.health_url,
            "metricsUrl": self.metrics_url,
            **changes,
        }

    def set(self, **state: str) -> None:
        """Change the answers, as soon as the engine listens: it may have just been started."""
        eventually(lambda: get(self.port, "/")[0] != 0, f"{self.name} listens")
        assert get(self.port, f"/set?{urlencode(state)}")[0] == 200

    def set_in_flight(self, count: int) -> None:
        self.set(metrics=f'dynamo_component_inflight_requests{{dynamo_endpoint="generate"}} {count}')


@dataclass
class Launcher:
    """A running launcher."""

    popen: subprocess.Popen[str]
    port: int
    termination_log: Path
    log: Path

    def ready(self, name: str = "main") -> bool:
        return get(self.port, f"/ready/{name}")[0] == 200

    def wait_ready(self, name: str = "main") -> None:
        eventually(lambda: self.ready(name), f"{name} is ready; log:\n{self.output()}")

    def status(self) -> dict[str, object]:
        return dict(json.loads(get(self.port, "/status")[1]))

    def pid(self, name: str = "main") -> int:
        processes = self.status()["processes"]
        assert isinstance(processes, list)
        return int(next(process["pid"] for process in processes if process["name"] == name))

    def terminate(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        return self.popen.wait(PATIENCE)

    def message(self) -> str:
        return self.termination_log.read_text()

    def output(self) -> str:
        return self.log.read_text()


@dataclass
class Workbench:
    """Starts launchers and hooks, and ends them all with the test."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(
        self, arguments: list[str], *, environment: dict[str, str] | None = None, wrapper: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        log = (self.folder / f"log-{len(self.started)}").open("w")
        popen = subprocess.Popen(
            [*wrapper, sys.executable, "-m", "epd_worker", *arguments],
            env={**os.environ, "PYTHONPATH": SOURCES, **(environment or {})},
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )
        log.close()
        self.started.append(popen)
        return popen

    def launch(
        self,
        *arguments: str,
        group: dict[str, object] | None = None,
        command: list[str] | None = None,
        environment: dict[str, str] | None = None,
        wrapper: tuple[str, ...] = (),
    ) -> Launcher:
        port, termination_log = free_port(), self.folder / f"termination-{len(self.started)}"
        termination_log.touch()
        log = self.folder / f"log-{len(self.started)}"
        common = ["--control-port", str(port), "--termination-log", str(termination_log), *arguments]
        if group is not None:
            words, environment = ["run-group", *common], {**(environment or {}), "EPD_GROUP": json.dumps(group)}
        else:
            words = ["run", "--name", "main", *common, "--", *(command or [])]
        popen = self.start(words, environment=environment, wrapper=wrapper)
        return Launcher(popen=popen, port=port, termination_log=termination_log, log=log)

    def run(self, engine: Engine, *arguments: str, wrapper: tuple[str, ...] = ()) -> Launcher:
        """Launch one engine under `run`."""
        urls = ["--role", engine.role, "--health-url", engine.health_url, "--metrics-url", engine.metrics_url]
        return self.launch(*urls, *arguments, command=engine.command, wrapper=wrapper)

    def hook(self, launcher: Launcher) -> subprocess.Popen[str]:
        return self.start(["drain", "--control-port", str(launcher.port)])

    def output_of(self, popen: subprocess.Popen[str]) -> str:
        return (self.folder / f"log-{self.started.index(popen)}").read_text()


@pytest.fixture
def workbench(tmp_path: Path) -> Iterator[Workbench]:
    bench = Workbench(folder=tmp_path)
    yield bench
    for popen in bench.started:
        # SIGTERM first: only the launcher itself can end everything below it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            popen.terminate()
            popen.wait(PATIENCE)
        popen.kill()
        popen.wait()


@pytest.fixture
def engine() -> Callable[..., Engine]:
    def make(name: str = "main", role: str = "worker", *options: str) -> Engine:
        return Engine(name=name, role=role, options=list(options))

    return make


@pytest.fixture(name="alive")
def _alive() -> Callable[[int], bool]:
    return alive


@pytest.fixture(name="get")
def _get() -> Callable[..., tuple[int, str]]:
    return get


@pytest.fixture(name="free_port")
def _free_port() -> Callable[[], int]:
    return free_port


@pytest.fixture(name="eventually")
def _eventually() -> Callable[[Callable[[], bool], str], None]:
    return eventually

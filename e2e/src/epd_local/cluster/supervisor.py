"""Process 1 of a PID namespace: starts components, reaps orphans, and records which component ended."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from epd_local.cluster.processes import COMPONENT_ENVIRONMENT
from epd_local.errors import ComponentFailedError

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Failure:
    """A component that ended or did not become ready."""

    component: str
    problem: str
    log: Path

    @property
    def text(self) -> str:
        """The failure in one line."""
        return f"{self.component} {self.problem}; see {self.log}"


@dataclass
class Components:
    """The components of a control plane or a node."""

    scope: str  # "control-plane" or a node's name
    state: Path
    # Keep the Popen objects: subprocess reaps processes whose object was deleted when it starts the next one.
    components: dict[int, tuple[str, subprocess.Popen[bytes]]] = field(default_factory=dict)

    @property
    def logs(self) -> Path:
        """Folder with one log per component."""
        return self.state / "logs" / self.scope

    def start(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a component; its output is appended to its log."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=COMPONENT_ENVIRONMENT, cwd="/"
            )
        self.components[process.pid] = (name, process)
        return process

    def wait_ready(
        self, name: str, process: subprocess.Popen[bytes], *, is_ready: Callable[[], bool], seconds: float
    ) -> None:
        """Wait until a component is ready.

        Raises:
            ComponentFailedError: it ended, or is not ready in time.
        """
        end = time.monotonic() + seconds
        while not is_ready():
            problem = ""
            if process.poll() is not None:
                problem = f"ended with {describe_exit(process.returncode)}"
            elif time.monotonic() > end:
                problem = f"is not ready after {seconds:.0f} s"
            if problem:
                raise ComponentFailedError(name, problem=problem, log=self.logs / f"{name}.log")
            time.sleep(POLL_SECONDS)

    def reap_forever(self) -> None:
        """Reap processes, as process 1 of a namespace must. Ends only with the namespace."""
        while True:
            try:
                pid, status = os.wait()
            except ChildProcessError:
                time.sleep(1)
                continue
            if pid in self.components:
                name, _ = self.components.pop(pid)
                problem = f"ended with {describe_exit(os.waitstatus_to_exitcode(status))}"
                record_failure(self.state, self.scope, Failure(name, problem, log=self.logs / f"{name}.log"))


def record_failure(state: Path, scope: str, failure: Failure) -> None:
    """Record a failure of a control plane or a node, for `start` and `status`."""
    folder = state / "failures"
    folder.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"component": failure.component, "problem": failure.problem, "log": str(failure.log)})
    with (folder / scope).open("a") as file:
        file.write(line + "\n")


def read_failure(state: Path, scope: str) -> Failure | None:
    """Return the first failure of a control plane or a node."""
    try:
        lines = (state / "failures" / scope).read_text().splitlines()
    except FileNotFoundError:
        return None
    first = json.loads(lines[0])
    return Failure(first["component"], first["problem"], log=Path(first["log"]))


def clear_failures(state: Path, scope: str) -> None:
    """Delete the recorded failures of a control plane or a node."""
    (state / "failures" / scope).unlink(missing_ok=True)


def raise_failure(state: Path, scope: str) -> None:
    """Raise the first failure of a control plane or a node, if there is one.

    Raises:
        ComponentFailedError: the message has the end of the component's log.
    """
    if failure := read_failure(state, scope):
        raise ComponentFailedError(f"{scope}: {failure.component}", problem=failure.problem, log=failure.log)


def describe_exit(code: int) -> str:
    """Describe how a process ended."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"

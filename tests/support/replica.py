"""A replica of the operator as a separate process, with the rights of an administrator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from support import waiting
from support.processes import TIED_TO_THIS_PROCESS, free_ports

ROOT = Path(__file__).parents[2]
ANSWER_SECONDS = 30.0
"""Time limit of an answer: long, because a busy machine must not look like a replica that is suspended."""


class Replica:
    """One replica; a context manager."""

    def __init__(self, *flags: str, kubeconfig: Path, log: Path) -> None:
        self.log = log
        self._metrics_port, self._health_port = free_ports(2)
        command = [*TIED_TO_THIS_PROCESS, sys.executable, "-m", "epd_operator"]
        command += [f"--metrics-port={self._metrics_port}", f"--health-port={self._health_port}", *flags]
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT / "operator" / "src")}
        environment.pop("KUBERNETES_SERVICE_HOST", None)
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if it has ended."""
        self.process.send_signal(number)

    def page(self, path: str, *, seconds: float = ANSWER_SECONDS) -> tuple[int, str]:
        """Status and text of ``/healthz`` or ``/readyz``; status 0 without an answer in time."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._health_port}{path}", timeout=seconds) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    @property
    def is_alive(self) -> bool:
        """Whether the liveness probe succeeds."""
        return self.page("/healthz")[0] == 200

    @property
    def is_ready(self) -> bool:
        """Whether the readiness probe succeeds."""
        return self.page("/readyz")[0] == 200

    def metric(self, name: str) -> float:
        """Sum of a metric's samples; NaN without an answer."""
        url = f"http://127.0.0.1:{self._metrics_port}/metrics"
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as page:
                families = list(text_string_to_metric_families(page.read().decode()))
        except OSError:
            return float("nan")
        return sum(s.value for family in families for s in family.samples if s.name == name)

    @property
    def leads(self) -> bool:
        """Whether it reports that it is the leader."""
        return self.metric("epd_operator_leader") == 1.0

    def wait_for(self, what: str, holds: Callable[[], object], *, may_end: bool = False) -> None:
        """Wait until something holds; raise with the end of the log when it never does or the process has ended."""

        def check() -> None:
            if self.process.poll() is not None and not may_end:
                raise RuntimeError(f"ended with code {self.process.returncode}")

        try:
            waiting.wait_for(what, holds, check=check)
        except (TimeoutError, RuntimeError) as error:
            raise AssertionError(f"{what}: {error}\n{self.log.read_text()[-4000:]}") from None

    def exit_code(self) -> int:
        """Wait until the process ends."""
        return self.process.wait(timeout=waiting.PATIENCE_SECONDS)

"""Processes of a test session: they end with it, however it ends."""

from __future__ import annotations

import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

STOP_SECONDS = 10
TIED_TO_THIS_PROCESS = ["setpriv", "--pdeathsig", "KILL"]
"""Ends the program when the test process is killed and cannot stop it."""


def free_ports(count: int) -> list[int]:
    """Free ports of the loopback address; all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


@dataclass
class Processes:
    """Programs that run until `stop`, each with its log in a folder."""

    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, command: list[str]) -> None:
        """Start a program; its output goes to ``<name>.log``."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                [*TIED_TO_THIS_PROCESS, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

    def require_alive(self) -> None:
        """Raise with the end of its log if a program has ended."""
        for name, process in self.running.items():
            if process.poll() is not None:
                log = (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{name} ended with code {process.returncode}:\n{log}")

    def stop(self) -> None:
        """End all programs, the last started first."""
        for process in reversed(self.running.values()):
            process.terminate()
            try:
                process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.running.clear()

"""Errors that end a command with one message for the user."""

from __future__ import annotations

from pathlib import Path

LOG_TAIL_LINES = 25


class LocalClusterError(RuntimeError):
    """An error that the user can fix; the message has the reason and the fix."""


class CommandFailedError(LocalClusterError):
    """A program that the tool ran ended with an error."""

    def __init__(self, what: str, *, code: int, output: str) -> None:
        """Quote the last lines of *output*, where programs report why they failed."""
        tail = "\n".join(f"    {line}" for line in output.strip().splitlines()[-LOG_TAIL_LINES:])
        super().__init__(f"{what} failed with exit code {code}" + (f":\n{tail}" if tail else ""))
        self.code = code


class ComponentFailedError(LocalClusterError):
    """A component of the cluster ended or did not become ready."""

    def __init__(self, component: str, *, problem: str, log: Path) -> None:
        """Quote the end of the component's log."""
        tail = "\n".join(f"    {line}" for line in tail_of(log))
        super().__init__(f"{component} {problem}. The end of {log}:\n{tail or '    (empty)'}")
        self.component, self.problem, self.log = component, problem, log


def tail_of(log: Path, *, lines: int = LOG_TAIL_LINES) -> list[str]:
    """Return the last lines of a log file; none if the file does not exist."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 200 * lines))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []

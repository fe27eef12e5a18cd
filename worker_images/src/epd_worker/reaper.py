"""Reaps every child that has ended: the launcher's own, and the orphans that it inherits as process 1 or subreaper."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_SWEEP_INTERVAL = 0.05
_SWEEP_ROUNDS = 100


@dataclass(frozen=True)
class Exit:
    """How a process ended: its exit code, or the signal that killed it."""

    code: int = 0
    signal: int = 0

    @property
    def shell_code(self) -> int:
        """The exit code as a shell reports it: 128 + signal for a killed process."""
        return 128 + self.signal if self.signal else self.code

    def describe(self) -> str:
        """Describe how it ended, for example `exit code 1` or `signal 9 (SIGKILL)`."""
        if not self.signal:
            return f"exit code {self.code}"
        try:
            return f"signal {self.signal} ({signal.Signals(self.signal).name})"
        except ValueError:
            return f"signal {self.signal}"


@dataclass(frozen=True)
class _Watched:
    ended: asyncio.Future[Exit]
    own_group: bool


class Reaper:
    """Handles SIGCHLD of the running event loop. No other code may wait for children."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._watched: dict[int, _Watched] = {}
        # Fails only on kernels before 3.4: then a launcher that is not process 1 does not inherit orphans.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._loop.add_signal_handler(signal.SIGCHLD, self.reap)

    def watch(self, pid: int, *, own_group: bool) -> asyncio.Future[Exit]:
        """Return a future of the child's end. With `own_group` its whole process group is killed when it ends."""
        ended: asyncio.Future[Exit] = self._loop.create_future()
        self._watched[pid] = _Watched(ended=ended, own_group=own_group)
        return ended

    def reap(self) -> None:
        """Reap all children that have ended."""
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None:
                return
            self._collect(info.si_pid)

    def _collect(self, pid: int) -> None:
        watched = self._watched.pop(pid, None)
        if watched is not None and watched.own_group:
            # Before the wait: while the zombie exists, no other process group can get this number.
            kill_group(pid)
        _, status = os.waitpid(pid, 0)
        if watched is not None and not watched.ended.done():
            code = os.waitstatus_to_exitcode(status)
            watched.ended.set_result(Exit(code=code) if code >= 0 else Exit(signal=-code))


def kill_group(pid: int) -> None:
    """Send SIGKILL to the process group of `pid`, if it still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def descendants(root: int) -> set[int]:
    """Return the live processes below `root`, read from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The command in parentheses may contain any character, parentheses too.
            state, parent, *_ = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(entry.name))
    found: set[int] = set()
    queue = [root]
    while queue:
        for child in children.get(queue.pop(), []):
            found.add(child)
            queue.append(child)
    return found


async def sweep(reaper: Reaper) -> set[int]:
    """Send SIGKILL to all descendants until none is left; return those that still exist after some seconds."""
    left: set[int] = set()
    for _ in range(_SWEEP_ROUNDS):
        reaper.reap()
        left = descendants(os.getpid())
        if not left:
            break
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(_SWEEP_INTERVAL)
    reaper.reap()
    return left

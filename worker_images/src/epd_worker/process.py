"""Starts one process in a session of its own and stops it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence

from epd_worker.output import Console, Line, Pump
from epd_worker.reaper import Exit, Reaper, descendants, kill_group

# Ignored signals stay ignored across exec: Python ignores the first two, and a shell's '&' may ignore the others.
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM)

_KILL_PATIENCE = 5.0
_HELPER_STACKS_SECONDS = 1.0
_STACKS_SECONDS = 5.0
# The kernel writes no core dump, neither to a file nor to a program, if this limit is 1: fs/coredump.c. A dump of an
# engine has the size of its memory.
_NO_CORE_DUMP = 1


class SpawnError(Exception):
    """The program could not be started; the message is the reason. `code` is the exit code that a shell would give."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


class Child:
    """A running process with its output."""

    def __init__(self, *, pid: int, ended: asyncio.Future[Exit], pump: Pump, clock: Callable[[], float]) -> None:
        self.pid = pid
        self.ended = ended
        self._pump = pump
        self._clock = clock

    async def stop(self, *, grace: float) -> bool:
        """Send SIGTERM, after `grace` seconds SIGKILL to the process group; return whether that was needed.

        Only the process itself gets SIGTERM: the child processes of an engine must run until it has ended its requests.
        """
        if self.ended.done():
            return False
        os.kill(self.pid, signal.SIGTERM)
        done, _ = await asyncio.wait({self.ended}, timeout=grace)
        if done:
            return False
        kill_group(self.pid)
        # With a time limit: a process that is blocked in a driver call does not end, even after SIGKILL.
        await asyncio.wait({self.ended}, timeout=_KILL_PATIENCE)
        return True

    async def abort(self) -> None:
        """End a process that does not react: SIGABRT, so that Python prints the stacks of all threads, then SIGKILL.

        Python prints them only with PYTHONFAULTHANDLER=1. The child processes first: the process group is killed when
        the process ends. https://docs.python.org/3/library/faulthandler.html
        """
        helpers = descendants(self.pid)
        for pid in helpers:
            _send_abort(pid)
        if helpers:
            await asyncio.wait({self.ended}, timeout=_HELPER_STACKS_SECONDS)
        if not self.ended.done():
            _send_abort(self.pid)
            await asyncio.wait({self.ended}, timeout=_STACKS_SECONDS)
        if not self.ended.done():
            kill_group(self.pid)
            await asyncio.wait({self.ended}, timeout=_KILL_PATIENCE)
        await asyncio.to_thread(self._pump.finish, timeout=1.0)

    async def last_output(self) -> list[Line]:
        """Return the last lines of output of a process that has ended; waits up to a second for them."""
        end = self._clock()
        await asyncio.to_thread(self._pump.finish, timeout=1.0)
        return self._pump.tail(at=end)


def _send_abort(pid: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
        resource.prlimit(pid, resource.RLIMIT_CORE, (_NO_CORE_DUMP if hard else 0, hard))
        os.kill(pid, signal.SIGABRT)


def spawn(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    prefix: str,
    console: Console,
    reaper: Reaper,
    own_group: bool = True,
    stdin: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Child:
    """Start a program with stdout and stderr on the console; `stdin` is /dev/null unless given.

    Raises:
        SpawnError: the program is missing or cannot be executed.
    """
    search = environment.get("PATH", os.defpath)
    program = shutil.which(command[0], path=search)
    if program is None:
        raise SpawnError(f"{command[0]}: command not found in PATH {search}", code=127)
    pump = Pump(console=console, prefix=prefix, clock=clock)
    try:
        pid = _posix_spawn(program, command, environment=environment, sink=pump.sink, stdin=stdin)
    except OSError as error:
        pump.discard()
        raise SpawnError(f"{program}: {error.strerror}", code=126) from None
    # No await between the spawn and the watch: the reaper cannot run in between.
    ended = reaper.watch(pid, own_group=own_group)
    pump.start()
    return Child(pid=pid, ended=ended, pump=pump, clock=clock)


def _posix_spawn(
    program: str, command: Sequence[str], *, environment: Mapping[str, str], sink: int, stdin: int | None
) -> int:
    source: tuple[int, int, str, int, int] | tuple[int, int, int]
    source = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0) if stdin is None else (os.POSIX_SPAWN_DUP2, stdin, 0)
    return os.posix_spawn(
        program,
        list(command),
        dict(environment),
        file_actions=[source, (os.POSIX_SPAWN_DUP2, sink, 1), (os.POSIX_SPAWN_DUP2, sink, 2)],
        setsid=True,
        setsigmask=(),
        setsigdef=_DEFAULT_SIGNALS,
    )

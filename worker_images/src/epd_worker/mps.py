"""CUDA MPS: the processes of a group use the GPU at the same time instead of in turns."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from epd_worker.output import Console
from epd_worker.process import Child, SpawnError, spawn
from epd_worker.reaper import Reaper
from epd_worker.termination import quote_output

CONTROL = "nvidia-cuda-mps-control"
PIPE_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"
LOG_VARIABLE = "CUDA_MPS_LOG_DIRECTORY"
_START_TIMEOUT = 30.0
_QUIT_TIMEOUT = 10.0


class MpsError(Exception):
    """The MPS daemon could not be started; the message has the reason and the fix, `code` is the exit code."""

    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Mps:
    """The MPS control daemon of this container, with its sockets and logs under `directory`."""

    def __init__(self, *, directory: str, environment: Mapping[str, str], console: Console, reaper: Reaper) -> None:
        self._pipe = Path(directory, "pipe")
        self._log = Path(directory, "log")
        self._environment = {**environment, **self.variables}
        self._console = console
        self._reaper = reaper
        self._running = False

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that CUDA processes need to find the daemon."""
        return {PIPE_VARIABLE: str(self._pipe), LOG_VARIABLE: str(self._log)}

    async def start(self) -> None:
        """Start the daemon and return when it accepts clients.

        Raises:
            MpsError: the program is missing, the directory is not writable, or the daemon failed.
        """
        try:
            for directory in (self._pipe, self._log):
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise MpsError(f"CUDA MPS: cannot create {error.filename}: {error.strerror}") from None
        try:
            # The program forks the daemon and exits: its process group must not be killed then.
            child = self._spawn("-d")
        except SpawnError as error:
            raise MpsError(
                f"CUDA MPS is enabled (cudaMps), but {error}; use an image or a container runtime that provides it,"
                " or set group.gpuSharing.strategy to TimeSlicing",
                code=error.code,
            ) from None
        done, _ = await asyncio.wait({child.ended}, timeout=_START_TIMEOUT)
        if not done:
            raise MpsError(f"CUDA MPS: {CONTROL} -d did not return within {_START_TIMEOUT:g} s")
        if child.ended.result().shell_code != 0:
            how, output = child.ended.result().describe(), quote_output(await child.last_output())
            raise MpsError(f"CUDA MPS: {CONTROL} -d ended with {how}; {output} (logs in {self._log})")
        self._running = True

    async def stop(self) -> None:
        """Send the daemon the command to quit. If it does not, the launcher kills it with the remaining processes."""
        if not self._running:
            return
        self._running = False
        source, sink = os.pipe()
        try:
            os.write(sink, b"quit\n")
            child = self._spawn(stdin=source)
        except SpawnError as error:
            self._console.log(f"CUDA MPS: cannot stop the daemon: {error}")
            return
        finally:
            os.close(source)
            os.close(sink)
        await asyncio.wait({child.ended}, timeout=_QUIT_TIMEOUT)

    def _spawn(self, *arguments: str, stdin: int | None = None) -> Child:
        return spawn(
            (CONTROL, *arguments),
            environment=self._environment,
            prefix="[mps] ",
            console=self._console,
            reaper=self._reaper,
            own_group=False,
            stdin=stdin,
        )

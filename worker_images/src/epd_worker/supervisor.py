"""Runs the processes of a pod: starts them in order, watches and drains them, and stops all when one ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from epd_worker import STOP_SIGNALS, listening
from epd_worker.control import ControlServer
from epd_worker.drain import Drainer
from epd_worker.member import Member
from epd_worker.mps import Mps, MpsError
from epd_worker.output import Console
from epd_worker.process import Child, SpawnError, spawn
from epd_worker.reaper import Exit, Reaper, sweep
from epd_worker.relay import MetricsRelay
from epd_worker.server import HttpServer
from epd_worker.silence import describe_silence
from epd_worker.spec import LaunchSpec, ProcessSpec
from epd_worker.termination import describe_end, write_message

_LAST_ANSWERS = 2.0
HUNG_CODE = 124
"""Exit code when a process has not answered for too long, as of the program `timeout`."""


@dataclass(frozen=True)
class _End:
    """Why the launcher ends: a signal, the end of a member, a failed start (`message`), or a member that hangs."""

    code: int
    message: str = ""
    member: Member | None = None
    how: Exit | None = None
    hung: Child | None = None


def _transfers_url(process: ProcessSpec, environment: Mapping[str, str]) -> str | None:
    """The page on which NIXL in the process serves its metrics, on IPv4 only; None without NIXL's telemetry."""
    port = {**environment, **process.environment}.get("NIXL_TELEMETRY_PROMETHEUS_PORT", "")
    return f"http://127.0.0.1:{port}/metrics" if port.isascii() and port.isdigit() else None


class Supervisor:
    """The launcher. Create it inside a running event loop, and call `run` once."""

    def __init__(
        self,
        spec: LaunchSpec,
        *,
        environment: Mapping[str, str],
        console: Console,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._console = console
        self._clock = clock
        self._reaper = Reaper()
        self._members = {
            process.name: Member(spec=process, clock=clock, transfers_url=_transfers_url(process, environment))
            for process in spec.processes
        }
        self._environment = {
            # Python prints the stacks of its threads when it crashes, and when the launcher ends it with SIGABRT.
            "PYTHONFAULTHANDLER": "1",
            listening.VARIABLE: listening.any_address(pod_ip=environment.get("POD_IP", "")),
            **environment,
        }
        self._environment.pop("EPD_GROUP", None)
        self._mps: Mps | None = None
        if spec.cuda_mps:
            self._mps = Mps(directory=spec.mps_directory, environment=environment, console=console, reaper=self._reaper)
            self._environment |= self._mps.variables
        self._drainer = Drainer(timeout=spec.drain_timeout, settle=spec.settle, clock=clock)
        self._drain: asyncio.Task[str] | None = None
        self._end: asyncio.Future[_End] = asyncio.get_running_loop().create_future()

    async def run(self) -> int:
        """Run until a signal or the end of a process; kill all that still runs, and return the exit code."""
        try:
            return await self._run()
        finally:
            for pid in await sweep(self._reaper):
                self._console.log(f"process {pid} still exists after SIGKILL (possibly blocked in a driver call)")

    async def _run(self) -> int:
        loop = asyncio.get_running_loop()
        for signum in STOP_SIGNALS:
            loop.add_signal_handler(signum, self._on_signal, signum)
        # Blocked since the start of the program, so that no signal is lost.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        servers = await self._listen()
        starter = asyncio.create_task(self._start_all(), name="start")
        starter.add_done_callback(self._on_task_end)
        end = await self._end
        starter.cancel()
        await asyncio.gather(starter, return_exceptions=True)
        code = await self._shut_down(end)
        if self._drain is not None:
            await asyncio.wait({self._drain}, timeout=_LAST_ANSWERS)
        await asyncio.gather(*(server.close(timeout=_LAST_ANSWERS) for server in servers))
        return code

    async def _listen(self) -> list[HttpServer]:
        """Open the control port and the metrics ports, before any process starts."""
        wanted: list[tuple[str, int, HttpServer]] = [("control port", self._spec.control_port, ControlServer(self))]
        for process in self._spec.processes:
            if process.metrics_port is not None:
                relay = MetricsRelay(process.metrics_url, clock=self._clock)
                wanted.append((f"metrics port of {process.name}", process.metrics_port, relay))
        for name, port, server in wanted:
            try:
                await server.start(port)
            except OSError as error:
                # The text of asyncio's error is long: use the short one of its number.
                reason = os.strerror(error.errno) if error.errno else str(error)
                self._finish(_End(code=1, message=f"cannot listen on {name} {port}: {reason}"))
        return [server for _, _, server in wanted]

    # --- used by the control server ---------------------------------------------------------------------------------

    def readiness(self, name: str) -> str | None:
        """Return None when the process is ready, else the reason."""
        member = self._members[name]
        return "the launcher is stopping" if self._end.done() else member.unready_reason()

    def liveness(self) -> str | None:
        """Return None: a launcher that answers works, and when a process ends, the launcher ends too."""
        return None

    def status(self) -> Mapping[str, object]:
        """Return the state of every process and of the drain."""
        summary = self._drain.result() if self._drain is not None and self._drain.done() else ""
        return {
            "state": self._state(),
            "processes": [member.status() for member in self._members.values()],
            "drainSummary": summary.splitlines(),
        }

    async def drain(self) -> str:
        """Drain once; all callers wait for the same drain and get its summary."""
        if self._drain is None:
            self._console.log("drain started")
            self._drain = asyncio.create_task(self._drain_all(), name="drain")
        return await asyncio.shield(self._drain)

    # --- internal ---------------------------------------------------------------------------------------------------

    def _state(self) -> str:
        if self._end.done():
            return "stopping"
        if self._drain is not None:
            return "drained" if self._drain.done() else "draining"
        return "running" if all(member.health.ever for member in self._members.values()) else "starting"

    def _finish(self, end: _End) -> None:
        if not self._end.done():
            self._end.set_result(end)

    def _on_signal(self, signum: int) -> None:
        self._console.log(f"received {signal.Signals(signum).name}: stopping")
        self._finish(_End(code=0))

    async def _drain_all(self) -> str:
        results = await self._drainer.drain(list(self._members.values()))
        for result in results:
            self._console.log(f"drain: {result.describe()}")
        return "\n".join(result.describe() for result in results)

    async def _start_all(self) -> None:
        """Start the processes one after the other, each when the one before is healthy."""
        try:
            if self._mps is not None:
                await self._mps.start()
                self._console.log("CUDA MPS is running")
            for member in self._members.values():
                if self._drain is not None:
                    # A process that has not started needs no drain, and must not start during one.
                    return
                self._start(member)
                await member.became_healthy.wait()
                self._console.log(f"{member.name} is healthy after {member.uptime:.1f} s")
        except (SpawnError, MpsError) as error:
            self._finish(_End(code=error.code, message=str(error)))

    def _start(self, member: Member) -> None:
        child = spawn(
            member.spec.command,
            environment={**self._environment, **member.spec.environment},
            prefix=f"[{member.name}] " if self._spec.group else "",
            console=self._console,
            reaper=self._reaper,
            clock=self._clock,
        )
        member.attach(child, on_check=lambda: self._on_check(member)).add_done_callback(self._on_task_end)
        child.ended.add_done_callback(lambda ended: self._on_process_end(member, ended.result()))
        self._console.log(f"{member.name} started as process {child.pid}")

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        """End the launcher when one of its own tasks failed: otherwise it would seem to work without that task."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._finish(_End(code=1, message=f"internal error in the task '{task.get_name()}': {error!r}"))

    def _on_check(self, member: Member) -> None:
        """End the launcher if a process hangs. During a drain the time limit of the drain applies instead."""
        limit, silence = self._spec.hang_timeout, member.silence
        if limit and silence.seconds >= limit and self._drain is None:
            reason, uptime = member.health.reason, member.uptime
            message = describe_silence(name=member.name, silence=silence, reason=reason, uptime=uptime)
            self._finish(_End(code=HUNG_CODE, message=message, hung=member.child))

    def _on_process_end(self, member: Member, how: Exit) -> None:
        member.detach()
        self._finish(_End(code=how.shell_code, member=member, how=how))

    async def _shut_down(self, end: _End) -> int:
        """Report the reason, stop all processes, and return the exit code."""
        message = end.message
        if end.member is not None and end.member.child is not None and end.how is not None:
            uptime = end.member.uptime
            tail = await end.member.child.last_output()
            message = describe_end(name=end.member.name, how=end.how, uptime=uptime, tail=tail)
        self._report(message)
        if end.hung is not None:
            await end.hung.abort()
        killed = await self._stop_all()
        if self._mps is not None:
            await self._mps.stop()
        if not killed or message:
            return end.code
        self._report(f"{', '.join(killed)}: killed, still running {self._spec.stop_timeout:g} s after SIGTERM")
        return 128 + signal.SIGKILL

    async def _stop_all(self) -> list[str]:
        running = [(member, member.child) for member in self._members.values() if member.child is not None]
        for member, _ in running:
            member.detach()
        killed = await asyncio.gather(*(child.stop(grace=self._spec.stop_timeout) for _, child in running))
        return [member.name for (member, _), late in zip(running, killed, strict=True) if late]

    def _report(self, message: str) -> None:
        if not message:
            return
        self._console.log(message)
        try:
            write_message(self._spec.termination_log, message)
        except OSError as error:
            self._console.log(f"cannot write {self._spec.termination_log}: {error.strerror}")

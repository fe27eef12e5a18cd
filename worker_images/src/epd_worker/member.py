"""One process under the launcher: its spec, its running child, its health and its drain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from epd_worker.drain import Reading
from epd_worker.fetch import NotListeningError, PageError, fetch
from epd_worker.health import Check, ProcessHealth, watch
from epd_worker.metrics import MAX_PAGE, in_flight, unread_embeddings
from epd_worker.process import Child
from epd_worker.silence import Silence
from epd_worker.spec import ProcessSpec, Role


@dataclass
class Member:
    """A process of the pod. `clock` gives monotonic seconds; `transfers_url` is the page of its NIXL, if it has one."""

    spec: ProcessSpec
    clock: Callable[[], float]
    transfers_url: str | None = None
    child: Child | None = None
    started: float = 0.0
    health: ProcessHealth = field(default_factory=ProcessHealth)
    silence: Silence = field(default_factory=Silence)
    draining: bool = False
    reading: Reading | None = None
    became_healthy: asyncio.Event = field(default_factory=asyncio.Event)
    _watching: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The process's name."""
        return self.spec.name

    @property
    def role(self) -> Role:
        """The process's role."""
        return self.spec.role

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self.child is not None and not self.child.ended.done()

    @property
    def uptime(self) -> float:
        """Seconds since the start; 0 before the start."""
        return self.clock() - self.started if self.child is not None else 0.0

    def attach(self, child: Child, *, on_check: Callable[[], None]) -> asyncio.Task[None]:
        """Set the started process and begin to check its health, in the task that is returned.

        `on_check` is called after each check.
        """
        self.child = child
        self.started = self.clock()

        def after_check(check: Check) -> None:
            self._set_health(check)
            on_check()

        checks = watch(self.spec, after_check, clock=self.clock)
        self._watching = asyncio.create_task(checks, name=f"health {self.name}")
        return self._watching

    def detach(self) -> None:
        """Stop the health checks."""
        if self._watching is not None:
            self._watching.cancel()

    def unready_reason(self) -> str | None:
        """Return why the process is not ready, in one line; None if it is ready."""
        if self.child is None:
            return f"{self.name} has not started yet"
        if not self.running:
            return f"{self.name} has ended"
        if self.draining:
            return f"{self.name} is draining"
        if not self.health.healthy:
            state = "is not healthy" if self.health.ever else f"has been starting for {self.uptime:.0f} s"
            return f"{self.name} {state}: {self.health.reason}"
        return None

    def begin_drain(self) -> bool:
        """Make the process unready; return False if it was never ready, and so never had a request."""
        self.draining = True
        return self.running and self.health.ever

    async def read(self, *, timeout: float) -> Reading:  # noqa: ASYNC109 - time limit of one page
        """Read the requests in flight from the metrics page of the process, and what waits to be read from it."""
        reading, unread = await asyncio.gather(self._read(timeout), self._read_unread(timeout))
        self.reading = replace(reading, unread=unread)
        return self.reading

    async def _read(self, limit_seconds: float) -> Reading:
        if not self.running:
            return Reading(in_flight=None, reason="the process has ended", ended=True)
        url = self.spec.metrics_url
        try:
            page = await fetch(url, timeout=limit_seconds, limit=MAX_PAGE)
        except PageError as error:
            return Reading(in_flight=None, reason=str(error))
        if page.status != 200:
            return Reading(in_flight=None, reason=f"{url} returned HTTP {page.status}")
        count = in_flight(self.role, page.body.decode(errors="replace"))
        reason = "" if count is not None else f"{url} has no metric of the requests in flight of role {self.role}"
        return Reading(in_flight=count, reason=reason)

    async def _read_unread(self, limit_seconds: float) -> float | None:
        """Bytes of embeddings that no other process has read yet; only an encoder announces any."""
        if self.role is not Role.ENCODER or self.transfers_url is None:
            return 0.0
        try:
            page = await fetch(self.transfers_url, timeout=limit_seconds, limit=MAX_PAGE)
        except NotListeningError:
            # NIXL opens the page with its first transfer.
            return 0.0
        except PageError:
            return None
        return unread_embeddings(page.body.decode(errors="replace")) if page.status == 200 else None

    def _set_health(self, check: Check) -> None:
        self.health = check.health
        self.silence = self.silence.after(check)
        if check.health.healthy:
            self.became_healthy.set()

    def status(self) -> dict[str, object]:
        """Return what is known, for the status page."""
        reading = self.reading
        return {
            "name": self.name,
            "role": str(self.role),
            "pid": self.child.pid if self.child is not None and self.running else None,
            "uptimeSeconds": round(self.uptime, 1),
            "ready": self.unready_reason() is None,
            "reason": self.unready_reason() or "",
            "draining": self.draining,
            "inFlight": reading.in_flight if reading is not None else None,
            "inFlightReason": reading.reason if reading is not None else "",
            "unreadBytes": reading.unread if reading is not None else None,
        }

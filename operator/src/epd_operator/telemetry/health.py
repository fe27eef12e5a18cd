"""Whether the process is alive and ready: a server in a thread of its own, so that a stuck event loop is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from epd_operator.telemetry.server import WebServer, check_page

STUCK_SECONDS = 300.0
"""A pass that takes so long never comes back: restart. A long queue is no reason, it would only begin anew."""

LOOP_STUCK_SECONDS = 30.0
BEAT_SECONDS = 0.5


class Health:
    """What the probes are told. Its attributes are set by the event loop and read by the server's threads."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self.longest_pass: Callable[[], float] = lambda: 0.0
        self.reached = False
        self.stopping = False
        self._clock = clock
        self._beat = clock()

    async def beat(self) -> None:
        """Show that the event loop turns, until cancelled."""
        while True:
            self._beat = self._clock()
            await asyncio.sleep(BEAT_SECONDS)

    def answered(self, status: int) -> None:
        """The API server gave an answer. A refusal is none: who may do nothing is not ready."""
        if 200 <= status < 300 or status == 404:
            self.reached = True

    def lag(self) -> float:
        """How long the event loop has not turned though it should have, in seconds."""
        return max(0.0, self._clock() - self._beat - BEAT_SECONDS)

    def why_dead(self) -> list[str]:
        """Reasons to restart. That the API server is away is none: a restart would not bring it back."""
        reasons = []
        if self.lag() > LOOP_STUCK_SECONDS:
            reasons.append(f"the event loop has been stuck for {self.lag():.0f} s")
        if (longest := self.longest_pass()) > STUCK_SECONDS:
            reasons.append(f"a pass over one object has been going on for {longest:.0f} s")
        return reasons

    def why_not_ready(self) -> list[str]:
        """Reasons not to count on this process. To be a standby is none: a roll-out waits until all are ready."""
        reasons = [] if self.reached else ["the API server has given no answer yet"]
        return [*reasons, "stopping"] if self.stopping else reasons


def export_health(health: Health, *, leads: Callable[[], bool], registry: CollectorRegistry) -> None:
    """Export what changes with time as it is when somebody looks."""
    leader = Gauge("epd_operator_leader", "1 on the replica that works, 0 on standbys.", registry=registry)
    leader.set_function(lambda: float(leads()))
    lag = Gauge(
        "epd_operator_event_loop_lag_seconds", "How long the event loop has been stuck, in seconds.", registry=registry
    )
    lag.set_function(health.lag)


class HealthServer(WebServer):
    """Answers the kubelet's probes."""

    def __init__(self, health: Health) -> None:
        pages = {"/healthz": check_page(health.why_dead), "/readyz": check_page(health.why_not_ready)}
        super().__init__(pages, name="health")

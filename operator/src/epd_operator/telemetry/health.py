"""Whether the process is alive and ready.

A server in its own thread answers, so that a blocked event loop is noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from epd_operator.telemetry.server import WebServer, check_page

STUCK_SECONDS = 300.0
"""A reconcile that runs this long will not end, so the process restarts. A long queue is no reason: it would start
again from the beginning."""

LOOP_STUCK_SECONDS = 30.0
BEAT_SECONDS = 0.5


class Health:
    """The state that the probes report. The event loop sets the attributes, and the server's thread reads them."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self.longest_reconcile: Callable[[], float] = lambda: 0.0
        self.reached = False
        self.stopping = False
        self._clock = clock
        self._beat = clock()

    async def beat(self) -> None:
        """Record regularly that the event loop runs, until cancelled."""
        while True:
            self._beat = self._clock()
            await asyncio.sleep(BEAT_SECONDS)

    def answered(self, status: int) -> None:
        """Record an answer of the API server. Refusals do not count, except 404."""
        if 200 <= status < 300 or status == 404:
            self.reached = True

    def lag(self) -> float:
        """For how many seconds the event loop has been blocked."""
        return max(0.0, self._clock() - self._beat - BEAT_SECONDS)

    def why_dead(self) -> list[str]:
        """Reasons to restart. An unreachable API server is none: a restart would not help."""
        reasons = []
        if self.lag() > LOOP_STUCK_SECONDS:
            reasons.append(f"the event loop has been blocked for {self.lag():.0f} s")
        if (longest := self.longest_reconcile()) > STUCK_SECONDS:
            reasons.append(f"one reconcile has been running for {longest:.0f} s")
        return reasons

    def why_not_ready(self) -> list[str]:
        """Reasons why the process is not ready.

        A standby is ready: a rolling update waits until all replicas are ready.
        """
        reasons = [] if self.reached else ["the API server has not answered successfully yet"]
        return [*reasons, "stopping"] if self.stopping else reasons


def export_health(health: Health, *, leads: Callable[[], bool], registry: CollectorRegistry) -> None:
    """Export the leadership and the event loop lag, computed at each scrape."""
    leader = Gauge("epd_operator_leader", "1 on the leader, 0 on standbys.", registry=registry)
    leader.set_function(lambda: float(leads()))
    lag = Gauge(
        "epd_operator_event_loop_lag_seconds",
        "For how many seconds the event loop has been blocked.",
        registry=registry,
    )
    lag.set_function(health.lag)


class HealthServer(WebServer):
    """Answers the kubelet's probes."""

    def __init__(self, health: Health) -> None:
        pages = {"/healthz": check_page(health.why_dead), "/readyz": check_page(health.why_not_ready)}
        super().__init__(pages, name="health")

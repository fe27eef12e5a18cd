"""The event recorder: writes Kubernetes Events, with a rate limit and in limited memory."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, NotFoundError
from epd_operator.cluster.events import can_be_dropped, create_event, update_event_count
from epd_operator.objects.identity import Identity, Key
from epd_operator.plan.status.status_events import StatusEvent
from epd_operator.telemetry.logs import log_context

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """An allowed rate.

    Attributes:
        burst: maximum number at once.
        every: seconds after which one more is allowed.
    """

    burst: int
    every: float


class RateLimit:
    """A token bucket for each key. Beyond its capacity, it drops the least recently used buckets."""

    def __init__(self, rate: Rate, *, clock: Callable[[], float], capacity: int) -> None:
        self._rate = rate
        self._clock = clock
        self._capacity = capacity
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def allow(self, key: Hashable) -> bool:
        """Take a token from the key's bucket. Returns false if there is none."""
        now = self._clock()
        tokens, since = self._buckets.pop(key, (float(self._rate.burst), now))
        tokens = min(float(self._rate.burst), tokens + (now - since) / self._rate.every)
        allowed = tokens >= 1
        self._buckets[key] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)
        return allowed


RATE = Rate(burst=20, every=60.0)
"""Limit for each object and each type of Event, so that many Normal Events never suppress a Warning."""
WINDOW_SECONDS = 600.0
"""The same event within this time increases the count of the existing Event."""
MAX_WAITING = 256
MAX_KNOWN = 2048
"""Maximum number of written Events, and of buckets of the rate limit, that are remembered."""


class EventOutcome(StrEnum):
    """What happened to a recorded event."""

    WRITTEN = "written"
    MERGED = "merged"
    DROPPED = "dropped"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class _Waiting:
    identity: Identity
    event: StatusEvent
    at: datetime


@dataclass(kw_only=True)
class _Series:
    """A written Event: its name, its count, and the monotonic time of its last occurrence."""

    name: str
    count: int = 1
    last: float


class EventRecorder:
    """A limited queue of events, and the task that writes them."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        count: Callable[[StatusEvent, EventOutcome], None],
        reporter: str,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        """Create the recorder. Nothing is written before ``run``.

        Args:
            cluster: the cluster to write to.
            count: called with the outcome of each event.
            reporter: name of this replica of the operator.
            clock: monotonic time in seconds.
            now: time of day.
        """
        self._cluster = cluster
        self._count = count
        self._reporter = reporter
        self._clock = clock
        self._now = now
        self._limit = RateLimit(RATE, clock=clock, capacity=MAX_KNOWN)
        self._known: OrderedDict[tuple[str, StatusEvent], _Series] = OrderedDict()
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()

    def record(self, identity: Identity, event: StatusEvent) -> None:
        """Queue an Event about an object. It is dropped if the queue is full or the rate limit is exceeded."""
        if len(self._waiting) >= MAX_WAITING:
            self._count(event, EventOutcome.DROPPED)
            return
        self._waiting.append(_Waiting(identity=identity, event=event, at=self._now()))
        self._arrived.set()

    def forget(self, key: Key) -> None:
        """Drop the queued events of a deleted object."""
        obsolete = [w for w in self._waiting if (w.identity.namespace, w.identity.name) == (key.namespace, key.name)]
        for waiting in obsolete:
            self._waiting.remove(waiting)
            self._count(waiting.event, EventOutcome.DROPPED)

    async def run(self) -> None:
        """Write queued events until cancelled. Then drop the rest: this replica is not the leader any more."""
        try:
            while True:
                while self._waiting:
                    await self._handle(self._waiting.popleft())
                self._arrived.clear()
                await self._arrived.wait()
        finally:
            for waiting in self._waiting:
                self._count(waiting.event, EventOutcome.DROPPED)
            self._waiting.clear()

    async def _handle(self, waiting: _Waiting) -> None:
        with log_context(Key(waiting.identity.namespace, waiting.identity.name)):
            outcome = EventOutcome.FAILED
            try:
                outcome = await self._deliver(waiting)
            except ClusterError as error:
                if can_be_dropped(error):
                    outcome = EventOutcome.DROPPED
                else:
                    logger.warning("an Event could not be written: %s", error)
            except Exception:
                # An error in the operator for one Event must not stop the recorder.
                logger.exception("an Event could not be written")
            self._count(waiting.event, outcome)

    async def _deliver(self, waiting: _Waiting) -> EventOutcome:
        identity, event = waiting.identity, waiting.event
        series = self._find_series(identity, event)
        if series is not None:
            # The occurrence is counted even if the rate limit drops it: the next update then includes it.
            series.count, series.last = series.count + 1, self._clock()
        if not self._limit.allow((identity.uid, event.type)):
            return EventOutcome.DROPPED
        if series is not None:
            try:
                await update_event_count(
                    self._cluster,
                    namespace=identity.namespace,
                    name=series.name,
                    count=series.count,
                    now=waiting.at,
                )
            except NotFoundError:
                pass
            else:
                return EventOutcome.MERGED
        name = await create_event(
            self._cluster, identity=identity, event=event, reporter=self._reporter, now=waiting.at
        )
        self._known.pop((identity.uid, event), None)
        self._known[identity.uid, event] = _Series(name=name, last=self._clock())
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return EventOutcome.WRITTEN

    def _find_series(self, identity: Identity, event: StatusEvent) -> _Series | None:
        series = self._known.get((identity.uid, event))
        if series is None or self._clock() - series.last > WINDOW_SECONDS:
            return None
        self._known.move_to_end((identity.uid, event))
        return series

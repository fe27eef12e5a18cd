"""A token bucket for each of many keys, in bounded memory."""

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
from epd_operator.cluster.events import is_pointless, raise_count, write_event
from epd_operator.objects.identity import Identity, Key
from epd_operator.plan.status.events import StatusEvent
from epd_operator.telemetry.logs import about


@dataclass(frozen=True, kw_only=True)
class Rate:
    """What is allowed.

    Attributes:
        burst: at once.
        every: seconds after which one more is allowed.
    """

    burst: int
    every: float


class RateLimit:
    """Of too many buckets, the one that was used least recently is forgotten."""

    def __init__(self, rate: Rate, *, clock: Callable[[], float], capacity: int) -> None:
        self._rate = rate
        self._clock = clock
        self._capacity = capacity
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def allow(self, key: Hashable) -> bool:
        """Take a token of the key, if there is one."""
        now = self._clock()
        tokens, since = self._buckets.pop(key, (float(self._rate.burst), now))
        tokens = min(float(self._rate.burst), tokens + (now - since) / self._rate.every)
        allowed = tokens >= 1
        self._buckets[key] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)
        return allowed


logger = logging.getLogger(__name__)

RATE = Rate(burst=20, every=60.0)
"""Of each object and type, so that what goes well never hides what goes wrong."""
WINDOW_SECONDS = 600.0
"""What is announced again within this time raises the count of the Event that is there."""
MAX_WAITING = 256
MAX_KNOWN = 2048
"""Events, and buckets of the rate limit, that are remembered."""


class EventOutcome(StrEnum):
    """What became of an announcement."""

    WRITTEN = "written"
    MERGED = "merged"
    DROPPED = "dropped"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class _Waiting:
    identity: Identity
    announcement: StatusEvent
    at: datetime


@dataclass(kw_only=True)
class _Series:
    """An Event that was written: its name, how often it was announced, and when last."""

    name: str
    count: int = 1
    last: float


class EventRecorder:
    """A short queue and the task that writes what is in it."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        count: Callable[[StatusEvent, EventOutcome], None],
        reporter: str,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        """Create it; nothing is written before ``run``.

        Args:
            cluster: where to write.
            count: told of the outcome of each announcement.
            reporter: name of this instance of the operator.
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

    def announce(self, identity: Identity, announcement: StatusEvent) -> None:
        """Have an Event written soon, or not at all."""
        if len(self._waiting) >= MAX_WAITING:
            self._count(announcement, EventOutcome.DROPPED)
            return
        self._waiting.append(_Waiting(identity=identity, announcement=announcement, at=self._now()))
        self._arrived.set()

    def forget(self, key: Key) -> None:
        """The object is gone: nobody will read what waits."""
        gone = [w for w in self._waiting if (w.identity.namespace, w.identity.name) == (key.namespace, key.name)]
        for waiting in gone:
            self._waiting.remove(waiting)
            self._count(waiting.announcement, EventOutcome.DROPPED)

    async def run(self) -> None:
        """Write until cancelled; then drop what waits, because somebody else goes on."""
        try:
            while True:
                while self._waiting:
                    await self._handle(self._waiting.popleft())
                self._arrived.clear()
                await self._arrived.wait()
        finally:
            for waiting in self._waiting:
                self._count(waiting.announcement, EventOutcome.DROPPED)
            self._waiting.clear()

    async def _handle(self, waiting: _Waiting) -> None:
        with about(Key(waiting.identity.namespace, waiting.identity.name)):
            outcome = EventOutcome.FAILED
            try:
                outcome = await self._deliver(waiting)
            except ClusterError as error:
                if is_pointless(error):
                    outcome = EventOutcome.DROPPED
                else:
                    logger.warning("no Event could be written: %s", error)
            except Exception:
                # A fault of ours at one Event must not end all others.
                logger.exception("no Event could be written")
            self._count(waiting.announcement, outcome)

    async def _deliver(self, waiting: _Waiting) -> EventOutcome:
        identity, announcement = waiting.identity, waiting.announcement
        series = self._known_series(identity, announcement)
        if series is not None:
            # Raised also where it is not written: the next one that is written tells of all.
            series.count, series.last = series.count + 1, self._clock()
        if not self._limit.allow((identity.uid, announcement.type)):
            return EventOutcome.DROPPED
        if series is not None:
            try:
                place = {"namespace": identity.namespace, "name": series.name}
                await raise_count(self._cluster, **place, count=series.count, now=waiting.at)
            except NotFoundError:
                pass
            else:
                return EventOutcome.MERGED
        name = await write_event(
            self._cluster, identity=identity, announcement=announcement, reporter=self._reporter, now=waiting.at
        )
        self._known.pop((identity.uid, announcement), None)
        self._known[identity.uid, announcement] = _Series(name=name, last=self._clock())
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return EventOutcome.WRITTEN

    def _known_series(self, identity: Identity, announcement: StatusEvent) -> _Series | None:
        series = self._known.get((identity.uid, announcement))
        if series is None or self._clock() - series.last > WINDOW_SECONDS:
            return None
        self._known.move_to_end((identity.uid, announcement))
        return series

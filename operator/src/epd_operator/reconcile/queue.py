"""The queue of objects to reconcile. A key is queued at most once, and only one worker has it at a time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class BackOff:
    """How long a key waits after consecutive failures, in seconds.

    Jitter makes the wait 50 to 100 % of the exponential value, so that keys that failed together spread out.
    """

    initial: float = 0.5
    maximum: float = 60.0

    def delay(self, failures: int, *, jitter: float) -> float:
        """The wait after this number of failures; jitter is between 0 and 1."""
        ceiling = min(self.maximum, self.initial * 2.0 ** min(failures - 1, 20))
        return ceiling * (0.5 + jitter / 2)


class WorkQueue(Generic[K]):
    """Keys that are due now or later.

    A key that is added while it waits stays in the queue once, at the earlier time. A key that is added while it is
    reconciled is reconciled once more afterwards. A heap orders the keys by their times. A key whose time has
    changed, or that is being reconciled, leaves an outdated entry in the heap; it is dropped when it reaches the top.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        random: Callable[[], float],
        back_off: BackOff | None = None,
        gap: float = 0.2,
        gap_after_failure: float = 5.0,
        on_wait: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        """Create an empty queue.

        Args:
            clock: monotonic time in seconds; it must advance while the event loop is blocked.
            random: numbers from 0 to 1, for jitter.
            back_off: waits after failures.
            gap: wait of a key that was added while it was being reconciled, in seconds, so that a burst of events
                causes one reconcile.
            gap_after_failure: longest wait after a failure if an event adds the key. A longer Retry-After is kept.
            on_wait: called when a key is taken, with the seconds since it was due.
        """
        self._clock = clock
        self._random = random
        self._back_off = back_off or BackOff()
        self._gap = gap
        self._gap_after_failure = gap_after_failure
        self._on_wait = on_wait
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._processing: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._not_before: dict[K, float] = {}
        self._changed = asyncio.Event()
        self._closed = False

    def close(self) -> None:
        """Make `get` return no more keys: the operator is stopping."""
        self._closed = True

    def add(self, key: K, *, delay: float = 0.0) -> None:
        """Make the key due after the delay, in seconds; a key that is due earlier keeps its time."""
        due = max(self._clock() + delay, self._not_before.get(key, 0.0))
        if key not in self._due or due < self._due[key]:
            self._set_due(key, due)
        self._changed.set()

    async def get(self) -> K:
        """Wait for the next due key. The caller must end its reconcile with ``done`` or ``failed``."""
        while True:
            due = None if self._closed else self._next_due()
            now = self._clock()
            if due is not None and due <= now:
                _, _, key = heapq.heappop(self._heap)
                del self._due[key]
                self._processing[key] = now
                self._on_wait(now - due)
                return key
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), None if due is None else due - now)
            except TimeoutError:
                continue

    def done(self, key: K, *, requeue_after: float | None = None) -> None:
        """End a successful reconcile; the key is due again after ``requeue_after`` seconds, if given."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)
        self._finish(key, delay=requeue_after, gap=self._gap)

    def failed(self, key: K, *, at_least: float = 0.0) -> float:
        """End a failed reconcile; returns the wait before the next one, in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        at_least = min(at_least, self._back_off.maximum)
        delay = max(at_least, self._back_off.delay(failures, jitter=self._random()))
        # A key that an event adds during or after the failed reconcile waits too: the cause of the failure may still
        # exist.
        gap = max(at_least, min(delay, self._gap_after_failure))
        self._not_before[key] = self._clock() + gap
        self._finish(key, delay=delay, gap=gap)
        return delay

    def _finish(self, key: K, *, delay: float | None, gap: float) -> None:
        self._processing.pop(key, None)
        now = self._clock()
        due = max(self._due[key], now + gap) if key in self._due else None
        if delay is not None:
            due = now + delay if due is None else min(due, now + delay)
        if due is not None:
            self._set_due(key, due)
        self._changed.set()

    def _set_due(self, key: K, due: float) -> None:
        self._due[key] = due
        if key not in self._processing:
            heapq.heappush(self._heap, (due, next(self._order), key))

    def _next_due(self) -> float | None:
        """The time of the first due key, after outdated entries have been dropped; None if no key waits."""
        while self._heap:
            due, _, key = self._heap[0]
            if key not in self._processing and self._due.get(key) == due:
                return due
            heapq.heappop(self._heap)
        return None

    # The thread of the metrics server also calls the methods below. They copy each map first, because the event loop
    # may change it.

    def __len__(self) -> int:
        """Number of keys that wait or are being reconciled."""
        return len(self._due.copy().keys() | self._processing.copy().keys())

    def overdue(self) -> float:
        """Seconds since the key that waits longest was due."""
        due, processing, now = self._due.copy(), self._processing.copy(), self._clock()
        return max(0.0, max((now - time for key, time in due.items() if key not in processing), default=0.0))

    def longest_reconcile(self) -> float:
        """Seconds since the oldest running reconcile started; 0 if none runs."""
        now = self._clock()
        return max((now - started for started in self._processing.copy().values()), default=0.0)

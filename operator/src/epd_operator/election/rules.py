"""The rules of the election, without I/O and without a clock.

No clock of another machine is believed. A candidate counts from the moment at which it saw the Lease change, a leader
from the moment before its last successful renewal: whoever sees the Lease change saw it later than that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from epd_operator.cluster.lease import LARGEST, Lease, Record

RELEASED_SECONDS = 1
"""Duration in a Lease that its holder gave up, as client-go writes it.

A Lease without a holder but with another duration was emptied by somebody else: its holder may still be working.
"""

LONGEST_SECONDS = 60
"""So long a candidate waits at most, whatever a stranger wrote into the Lease."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """All times in seconds.

    Attributes:
        duration: a candidate takes over when it has seen no change for so long.
        deadline: a leader stops so long after the beginning of its last successful renewal.
        grace: after the deadline, until the process ends if it could not stop.
        retry: between two attempts; jitter makes it up to 1.2 times as long.
        request: one request about the Lease.
    """

    duration: float = 15.0
    deadline: float = 10.0
    grace: float = 2.5
    retry: float = 2.0
    request: float = 5.0

    def pause(self, *, jitter: float) -> float:
        """Time until the next attempt; jitter lies between 0 and 1."""
        return self.retry * (1.0 + 0.2 * jitter)


class Candidate:
    """One candidate: what it saw of the Lease, and until when it may work."""

    def __init__(self, *, identity: str, timing: Timing) -> None:
        self.identity = identity
        self.leads = False
        self.work_until = float("-inf")
        self.lease: Lease | None = None
        self._timing = timing
        self._changed_at: float | None = None
        self._attempt: Record | None = None
        self._stamp: datetime | None = None

    def saw(self, lease: Lease | None, *, at: float) -> None:
        """The Lease was read; the answer came at that time."""
        before = self.lease.version if self.lease else None
        if self._changed_at is None or before != (lease.version if lease else None):
            self._changed_at = at
        self.lease = lease
        if lease is not None and lease.record.holder not in ("", self.identity):
            self.leads = False

    def next_record(self, *, at: float, now: datetime) -> Record | None:
        """What to write over the Lease that was seen; None while somebody else may be working.

        Args:
            at: monotonic time.
            now: time of day, for people.
        """
        self.leads = self.leads and at < self.work_until
        if self.leads and self._attempt is not None:
            self._attempt = replace(self._attempt, renewed=self._next_stamp(now))
            return self._attempt
        if self._changed_at is None:
            return None
        duration = max(1, round(self._timing.duration))
        if self.lease is None:
            # Nobody can tell for how long there has been none: it may have come and gone since we looked. Once it
            # is there, every change shows.
            return Record(duration_seconds=duration, renewed=self._next_stamp(now))
        before = self.lease.record
        if not self._is_free(before, at=at):
            return None
        self._attempt = Record(
            holder=self.identity,
            duration_seconds=duration,
            acquired=(stamp := self._next_stamp(now)),
            renewed=stamp,
            transitions=min(before.transitions + bool(before.acquired), LARGEST),
        )
        return self._attempt

    def wrote(self, lease: Lease, *, began: float, at: float) -> None:
        """The write succeeded; it began and was answered at these times."""
        self.saw(lease, at=at)
        if lease.record.holder == self.identity:
            self.leads = True
            self.work_until = began + self._timing.deadline

    def resign(self) -> None:
        """Lead no more: the deadline has passed."""
        self.leads = False

    def released(self, *, now: datetime) -> Record | None:
        """What to write to give the Lease up; None if it is not as we wrote it."""
        if self.lease is None or self.lease.record != self._attempt:
            return None
        stamp = self._next_stamp(now)
        transitions = self.lease.record.transitions
        return Record(duration_seconds=RELEASED_SECONDS, acquired=stamp, renewed=stamp, transitions=transitions)

    def _is_free(self, record: Record, *, at: float) -> bool:
        if record == self._attempt:
            # Our own write, whose answer got lost.
            return True
        if not record.holder and record.duration_seconds == RELEASED_SECONDS:
            return True
        changed = at if self._changed_at is None else self._changed_at
        return at >= changed + max(self._timing.duration, min(record.duration_seconds, LONGEST_SECONDS))

    def _next_stamp(self, now: datetime) -> str:
        """A time that was in no record of ours before: a write that changes nothing would be seen by nobody."""
        if self._stamp is not None:
            now = max(now, self._stamp + timedelta(microseconds=1))
        self._stamp = now
        return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""The rules of the leader election. This module does no I/O and reads no clock.

The election never compares clocks of different machines. A candidate measures the lease duration from the moment at
which it observed the last change of the Lease. A leader measures its renew deadline from the moment before it sent its
last successful renewal. Candidates always observe a renewal after that moment, and the deadline is shorter than the
lease duration. So the leader stops before another candidate can acquire the Lease.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from epd_operator.cluster.lease import MAX_INT32, Lease, LeaseRecord

RELEASED_SECONDS = 1
"""Duration in a released Lease, as in client-go.

A Lease without a holder but with another duration was not released: another client removed the holder's name, and that
holder may still be the leader.
"""

MAX_WAIT_SECONDS = 60
"""Longest wait of a candidate. A longer duration in the Lease is reduced to this value: another client may have written
it."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Times of the election, in seconds.

    Attributes:
        duration: lease duration. A candidate acquires the Lease if it has not changed for this time.
        deadline: renew deadline: a leader stops when this time has passed since it began its last successful renewal.
        grace: time after the deadline until the process exits, if its tasks could not be stopped.
        retry: retry period between two attempts; jitter makes it up to 1.2 times as long.
        request: timeout of a request for the Lease.
    """

    duration: float = 15.0
    deadline: float = 10.0
    grace: float = 2.5
    retry: float = 2.0
    request: float = 5.0

    def pause(self, *, jitter: float) -> float:
        """Time until the next attempt; jitter is between 0 and 1."""
        return self.retry * (1.0 + 0.2 * jitter)


class Candidate:
    """State of one candidate: what it has observed of the Lease, and until when it is the leader.

    Attributes:
        identity: name of the candidate in the Lease.
        leads: whether it holds the Lease, as far as it has observed.
        leads_until: monotonic time at which its leadership ends unless it renews the Lease.
        lease: the Lease, as last observed; None if it did not exist.
    """

    def __init__(self, *, identity: str, timing: Timing) -> None:
        self.identity = identity
        self.leads = False
        self.leads_until = float("-inf")
        self.lease: Lease | None = None
        self._timing = timing
        self._changed_at: float | None = None
        self._own_record: LeaseRecord | None = None
        """The last record that this candidate tried to write with itself as the holder."""
        self._last_timestamp: datetime | None = None

    def observe(self, lease: Lease | None, *, at: float) -> None:
        """Record the Lease from an answer that arrived at this time."""
        before = self.lease.version if self.lease else None
        if self._changed_at is None or before != (lease.version if lease else None):
            self._changed_at = at
        self.lease = lease
        if lease is not None and lease.record.holder not in ("", self.identity):
            self.leads = False

    def next_record(self, *, at: float, now: datetime) -> LeaseRecord | None:
        """The record to write over the observed Lease. None while another candidate may be the leader.

        Args:
            at: monotonic time.
            now: time of day for the timestamps in the Lease, which are for humans only.
        """
        self.leads = self.leads and at < self.leads_until
        if self.leads and self._own_record is not None:
            self._own_record = replace(self._own_record, renewed=self._next_timestamp(now))
            return self._own_record
        if self._changed_at is None:
            return None
        duration = max(1, round(self._timing.duration))
        if self.lease is None:
            # Another candidate may have created and lost the Lease since the last read. So this candidate does not
            # acquire it yet: it creates a Lease without a holder, and then waits for the lease duration.
            return LeaseRecord(duration_seconds=duration, renewed=self._next_timestamp(now))
        before = self.lease.record
        if not self._can_acquire(before, at=at):
            return None
        timestamp = self._next_timestamp(now)
        self._own_record = LeaseRecord(
            holder=self.identity,
            duration_seconds=duration,
            acquired=timestamp,
            renewed=timestamp,
            transitions=min(before.transitions + bool(before.acquired), MAX_INT32),
        )
        return self._own_record

    def confirm_write(self, lease: Lease, *, started: float, at: float) -> None:
        """Record a successful write; `started` and `at` are the times of request and answer."""
        self.observe(lease, at=at)
        if lease.record.holder == self.identity:
            self.leads = True
            self.leads_until = started + self._timing.deadline

    def resign(self) -> None:
        """Stop being the leader. The Lease is not changed."""
        self.leads = False

    def release_record(self, *, now: datetime) -> LeaseRecord | None:
        """The record that releases the Lease. None if the Lease is not the one that this candidate wrote last."""
        if self.lease is None or self.lease.record != self._own_record:
            return None
        timestamp = self._next_timestamp(now)
        return LeaseRecord(
            duration_seconds=RELEASED_SECONDS,
            acquired=timestamp,
            renewed=timestamp,
            transitions=self.lease.record.transitions,
        )

    def _can_acquire(self, record: LeaseRecord, *, at: float) -> bool:
        if record == self._own_record:
            # An earlier write of this candidate succeeded, but its answer was lost.
            return True
        if not record.holder and record.duration_seconds == RELEASED_SECONDS:
            return True
        changed = at if self._changed_at is None else self._changed_at
        return at >= changed + max(self._timing.duration, min(record.duration_seconds, MAX_WAIT_SECONDS))

    def _next_timestamp(self, now: datetime) -> str:
        """A timestamp that differs from all earlier ones, even if the clock stands still or goes back.

        Otherwise a renewal might not change the Lease, and other candidates could not observe it.
        """
        if self._last_timestamp is not None:
            now = max(now, self._last_timestamp + timedelta(microseconds=1))
        self._last_timestamp = now
        return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

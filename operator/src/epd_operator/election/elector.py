"""Takes part in the leader election: acquires the Lease, renews it and releases it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import NoReturn

from epd_operator.cluster.errors import ClusterError
from epd_operator.cluster.lease import LeaseStore
from epd_operator.election.rules import Candidate, Timing

logger = logging.getLogger(__name__)

FROZEN = "the process was paused or its event loop was blocked"
"""Why the Lease was not renewed in time, if no attempt failed."""


class LeadershipLostError(Exception):
    """This replica is not the leader any more. The process must exit; it restarts as a standby."""


class Elector:
    """Runs the election for one candidate."""

    def __init__(
        self,
        store: LeaseStore,
        *,
        identity: str,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        random: Callable[[], float],
        timing: Timing | None = None,
    ) -> None:
        """Create an elector. It sends no request yet.

        Args:
            store: storage of the Lease.
            identity: name of this candidate in the Lease; it must be unique for each process.
            clock: monotonic time in seconds; it must advance while the event loop is blocked.
            now: time of day, for the timestamps in the Lease.
            random: numbers between 0 and 1, for jitter.
            timing: times of the election.
        """
        self.timing = timing or Timing()
        self._store = store
        self._clock = clock
        self._now = now
        self._random = random
        self._candidate = Candidate(identity=identity, timing=self.timing)
        self._must_read = True
        self._observed_holder = ""
        self._last_error = ""

    def is_leader(self) -> bool:
        """Whether this replica may write now: until its renew deadline no other replica can become the leader."""
        return self._candidate.leads and self._clock() < self._candidate.leads_until

    def overdue(self) -> float:
        """Seconds since the renew deadline; negative before the deadline."""
        return self._clock() - self._candidate.leads_until

    async def acquire(self) -> None:
        """Return as soon as this replica is the leader. Retry after errors of the API server."""
        while True:
            await self._try_acquire_or_renew(seconds=None)
            if self.is_leader():
                logger.info("%s is the leader", self._candidate.identity)
                return
            await asyncio.sleep(self.timing.pause(jitter=self._random()))

    async def renew_until_lost(self) -> NoReturn:
        """Renew the Lease until this replica is not the leader any more.

        Raises:
            LeadershipLostError: the leadership is lost; all leader tasks must stop now.
        """
        while True:
            await asyncio.sleep(min(self.timing.pause(jitter=self._random()), max(0.0, -self.overdue())))
            if self.overdue() < 0:
                await self._try_acquire_or_renew(seconds=-self.overdue())
            if not self.is_leader():
                deadline_passed = self._candidate.leads
                self._candidate.resign()
                raise LeadershipLostError(
                    f"the Lease was not renewed for {self.timing.deadline:g} s: {self._last_error or FROZEN}"
                    if deadline_passed
                    else _holder_message(self._observed_holder)
                )

    async def release(self) -> None:
        """Release the Lease, so that a standby can acquire it at once. Call it only after all leader tasks ended."""
        self._candidate.resign()
        try:
            self._candidate.observe(await self._store.read(), at=self._clock())
            record = self._candidate.release_record(now=self._now())
            if record is not None:
                await self._store.write(record, previous=self._candidate.lease)
                logger.info("%s released the Lease", self._candidate.identity)
        except ClusterError as error:
            logger.warning("the Lease could not be released and will expire: %s", error)

    async def _try_acquire_or_renew(self, *, seconds: float | None) -> None:
        """Read the Lease and write it if the rules allow it. Errors are logged; the caller tries again."""
        try:
            async with asyncio.timeout(seconds):
                await self._acquire_or_renew()
        except (ClusterError, TimeoutError) as error:
            self._last_error = str(error) or "no answer"
            logger.warning("the Lease could not be read or written: %s", self._last_error)
        else:
            self._last_error = ""

    async def _acquire_or_renew(self) -> None:
        candidate = self._candidate
        if self._must_read or not candidate.leads:
            lease = await self._store.read()
            candidate.observe(lease, at=self._clock())
            self._log_holder(lease.record.holder if lease else "")
        record = candidate.next_record(at=self._clock(), now=self._now())
        if record is None:
            return
        # A failed write may have been executed, so the next attempt reads the Lease first.
        self._must_read = True
        started = self._clock()
        lease = await self._store.write(record, previous=candidate.lease)
        candidate.confirm_write(lease, started=started, at=self._clock())
        self._must_read = False

    def _log_holder(self, holder: str) -> None:
        if holder != self._observed_holder:
            logger.info("%s", _holder_message(holder))
            self._observed_holder = holder


def _holder_message(holder: str) -> str:
    """Message about the holder. Other clients may have written any text into the Lease."""
    return f"the holder of the Lease is {holder[:200]!r}" if holder else "the Lease has no holder"

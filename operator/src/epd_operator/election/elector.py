"""Takes part in the election: waits for the Lease, keeps it, gives it up."""

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


class LeadershipLostError(Exception):
    """Somebody else may work from now on: end the process, to begin anew as a standby."""


class Elector:
    """One candidate and its Lease."""

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
        """Create a candidate.

        Args:
            store: where the Lease is kept.
            identity: of this process; no other process, earlier or later, has the same.
            clock: monotonic time in seconds, right even when the event loop has been stuck.
            now: time of day, for people.
            random: numbers from 0 to 1, for jitter.
            timing: how long things take.
        """
        self.timing = timing or Timing()
        self._store = store
        self._clock = clock
        self._now = now
        self._random = random
        self._candidacy = Candidate(identity=identity, timing=self.timing)
        self._stale = True
        self._holder = ""
        self._trouble = ""

    def may_work(self) -> bool:
        """Whether nobody else can be working now: asked before each write."""
        return self._candidacy.leads and self._clock() < self._candidacy.work_until

    def overdue(self) -> float:
        """How long the time to work has been over, in seconds; negative while it is not."""
        return self._clock() - self._candidacy.work_until

    async def win(self) -> None:
        """Return as soon as this candidate leads; failures of the API server only take time."""
        while True:
            await self._attempt(seconds=None)
            if self.may_work():
                logger.info("%s leads", self._candidacy.identity)
                return
            await asyncio.sleep(self.timing.pause(jitter=self._random()))

    async def keep(self) -> NoReturn:
        """Renew the Lease for as long as that works.

        Raises:
            LeadershipLostError: stop working, now.
        """
        while True:
            await asyncio.sleep(min(self.timing.pause(jitter=self._random()), max(0.0, -self.overdue())))
            if self.overdue() < 0:
                await self._attempt(seconds=-self.overdue())
            if not self.may_work():
                held = self._candidacy.leads
                self._candidacy.resign()
                raise LeadershipLostError(
                    f"not renewed for {self.timing.deadline:g} s: {self._trouble}"
                    if held
                    else f"the Lease is held by {_named(self._holder)}"
                )

    async def release(self) -> None:
        """Give up the Lease, so that a successor begins at once. Only when all work has ended."""
        self._candidacy.resign()
        try:
            self._candidacy.saw(await self._store.read(), at=self._clock())
            record = self._candidacy.released(now=self._now())
            if record is not None:
                await self._store.write(record, over=self._candidacy.lease)
                logger.info("%s gave up the lease", self._candidacy.identity)
        except ClusterError as error:
            logger.warning("the lease could not be given up, it expires by itself: %s", error)

    async def _attempt(self, *, seconds: float | None) -> None:
        """Look at the Lease, and write it if we may; whatever fails is tried again later."""
        try:
            async with asyncio.timeout(seconds):
                await self._step()
        except (ClusterError, TimeoutError) as error:
            self._trouble = str(error) or "no answer"
            logger.warning("lease: %s", self._trouble)
        else:
            self._trouble = ""

    async def _step(self) -> None:
        candidacy = self._candidacy
        if self._stale or not candidacy.leads:
            found = await self._store.read()
            candidacy.saw(found, at=self._clock())
            self._show_holder(found.record.holder if found else "")
        record = candidacy.next_record(at=self._clock(), now=self._now())
        if record is None:
            return
        self._stale = True
        began = self._clock()
        lease = await self._store.write(record, over=candidacy.lease)
        candidacy.wrote(lease, began=began, at=self._clock())
        self._stale = False

    def _show_holder(self, holder: str) -> None:
        if holder != self._holder:
            logger.info("the lease is held by %s", _named(holder))
            self._holder = holder


def _named(holder: str) -> str:
    """A holder's name for the log: anybody may have written it."""
    return repr(holder[:200]) if holder else "nobody"

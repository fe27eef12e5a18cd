"""Reads the metrics pages of a deployment's pods concurrently, with limits of time and size."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from epd_operator.loads.fetch import FetchError, PageObserver, PageOutcome, fetch, ignore_page, open_session
from epd_operator.loads.measurements import Measurements, PageResult
from epd_operator.loads.pod_metrics import read_page
from epd_operator.loads.targets import Target

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits for reading pages.

    Attributes:
        pages: maximum number of pages that are read at the same time, of all deployments together.
        pages_per_round: maximum number for one deployment, so that pods that do not answer delay only their own
            deployment.
        page_seconds: timeout of a page.
        round_seconds: timeout of a round, that is, all pages of a deployment, including the wait for other deployments.
        page_bytes: maximum size of a page; real pages have about 100 kB.
    """

    pages: int = 64
    pages_per_round: int = 32
    page_seconds: float = 2.0
    round_seconds: float = 10.0
    page_bytes: int = 2 * 1024 * 1024


@asynccontextmanager
async def open_pod_page_reader(
    *, clock: Callable[[], float], observe: PageObserver = ignore_page, limits: Limits | None = None
) -> AsyncIterator[PodPageReader]:
    """A reader for all deployments. `clock` is the monotonic time for the ages of measurements."""
    limits = limits or Limits()
    async with open_session(connections=limits.pages) as session:
        yield PodPageReader(session, clock=clock, observe=observe, limits=limits)


class PodPageReader:
    """Reads metrics pages. It keeps no values; `LatestMeasurements` does."""

    def __init__(
        self, session: aiohttp.ClientSession, *, clock: Callable[[], float], observe: PageObserver, limits: Limits
    ) -> None:
        self._session = session
        self._clock = clock
        self._observe = observe
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.pages)

    async def scrape(self, targets: Sequence[Target]) -> Measurements:
        """Read the pages of the ready pods of one deployment.

        Errors of single pods are not raised: a pod whose page cannot be read has no values, and its outcome is counted.
        """
        slots = asyncio.Semaphore(self._limits.pages_per_round)
        tasks = [(target, asyncio.create_task(self._read(target, slots=slots))) for target in targets if target.ready]
        try:
            if tasks:
                await asyncio.wait([task for _, task in tasks], timeout=self._limits.round_seconds)
        finally:
            for _, task in tasks:
                task.cancel()
            await asyncio.gather(*(task for _, task in tasks), return_exceptions=True)
        pages = {
            target.pod: PageResult(outcome=PageOutcome.ROUND_OVER) if task.cancelled() else task.result()
            for target, task in tasks
        }
        for target, _ in tasks:
            self._observe(target.stage, pages[target.pod].outcome)
        return Measurements.of(targets, pages=pages)

    async def _read(self, target: Target, *, slots: asyncio.Semaphore) -> PageResult:
        async with slots, self._slots:
            # The values are measured after this moment, so their age is never underestimated.
            requested_at = self._clock()
            try:
                async with asyncio.timeout(self._limits.page_seconds):
                    body = await fetch(self._session, target.url, max_bytes=self._limits.page_bytes)
            except TimeoutError:
                return PageResult(outcome=PageOutcome.TIMEOUT)
            except FetchError as error:
                return PageResult(outcome=error.outcome)
            except Exception:
                # An error in the operator for one page must not discard the values of the other pages.
                logger.exception("unexpected error for the metrics page of pod %s", target.pod)
                return PageResult(outcome=PageOutcome.FAULT)
        return PageResult.of(read_page(body, stage=target.stage, at=requested_at), measured_at=requested_at)

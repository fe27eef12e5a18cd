"""Reads the pages of a deployment's pods, all at once, within bounds that no pod can stretch."""

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
    """Bounds of the scraper.

    Attributes:
        pages: pages that are read at a time, of all deployments together.
        pages_per_round: the same of one deployment, so that one whose pods are silent does not hold up the others.
        page_seconds: deadline of a page.
        round_seconds: deadline of a round, waiting for the others included.
        page_bytes: largest page; real ones have about 100 kB.
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
    """A scraper for all deployments; `clock` gives the seconds in which ages are counted."""
    limits = limits or Limits()
    async with open_session(connections=limits.pages) as session:
        yield PodPageReader(session, clock=clock, observe=observe, limits=limits)


class PodPageReader:
    """Reads pages. Keeps nothing of them: that is the signal store's part."""

    def __init__(
        self, session: aiohttp.ClientSession, *, clock: Callable[[], float], observe: PageObserver, limits: Limits
    ) -> None:
        self._session = session
        self._clock = clock
        self._observe = observe
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.pages)

    async def scrape(self, targets: Sequence[Target]) -> Measurements:
        """Read the pages of one deployment's pods; those that are not ready are not asked.

        Never raises for a pod's sake: a page that cannot be read leaves its pod without values, and is counted.
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
            # The page is at least as young as its request, so ages are never understated.
            asked_at = self._clock()
            try:
                async with asyncio.timeout(self._limits.page_seconds):
                    body = await fetch(self._session, target.url, max_bytes=self._limits.page_bytes)
            except TimeoutError:
                return PageResult(outcome=PageOutcome.TIMEOUT)
            except FetchError as error:
                return PageResult(outcome=error.outcome)
            except Exception:
                # A fault of ours at one page must not take the others' values away.
                logger.exception("page of pod %s: unexpected error", target.pod)
                return PageResult(outcome=PageOutcome.FAULT)
        return PageResult.of(read_page(body, stage=target.stage, at=asked_at), measured_at=asked_at)

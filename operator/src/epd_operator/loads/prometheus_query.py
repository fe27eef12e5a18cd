"""Reads the same from a Prometheus server, for clusters where the operator may not reach the pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import aiohttp

from epd_operator.loads.fetch import FetchError, PageObserver, PageOutcome, fetch, ignore_page
from epd_operator.loads.measurements import Measurements, PageResult
from epd_operator.loads.prometheus_answer import newest_pages, selector
from epd_operator.loads.targets import Target

PODS_PER_QUERY = 50
"""Keeps the query's address short and the answer well below its limit."""
_JSON = {"Accept": "application/json"}


@dataclass(frozen=True, kw_only=True)
class QueryLimits:
    """Bounds of a query.

    Attributes:
        window_seconds: how old samples may be; older ones are as good as missing.
        query_seconds: deadline of a query.
        round_seconds: deadline of all queries of a deployment together.
        answer_bytes: largest answer.
    """

    window_seconds: int = 300
    query_seconds: float = 5.0
    round_seconds: float = 10.0
    answer_bytes: int = 8 * 1024 * 1024


class PrometheusSource:
    """Answers like the scraper, with ages that reach back to when Prometheus took the samples."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        url: str,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        observe: PageObserver = ignore_page,
        limits: QueryLimits | None = None,
    ) -> None:
        """`url` is the server's, `clock` the one of ages, and `wall_clock` gives Unix time, as samples have it."""
        self._session = session
        self._url = url.rstrip("/") + "/api/v1/query"
        self._clock = clock
        self._wall_clock = wall_clock
        self._observe = observe
        self._limits = limits or QueryLimits()

    async def scrape(self, targets: Sequence[Target], *, namespace: str) -> Measurements:
        """Values of one deployment's ready pods.

        Never raises for the server's sake: pods without a fresh and complete page are left without values.
        """
        asked = [target for target in targets if target.ready]
        pages = {target.pod: PageResult(outcome=PageOutcome.ROUND_OVER) for target in asked}
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.round_seconds):
                for start in range(0, len(asked), PODS_PER_QUERY):
                    pages |= await self._ask(asked[start : start + PODS_PER_QUERY], namespace=namespace)
        for target in asked:
            self._observe(target.stage, pages[target.pod].outcome)
        return Measurements.of(targets, pages=pages)

    async def _ask(self, targets: Sequence[Target], *, namespace: str) -> dict[str, PageResult]:
        query = {"query": selector(targets, namespace=namespace, window_seconds=self._limits.window_seconds)}
        try:
            async with asyncio.timeout(self._limits.query_seconds):
                answer = await fetch(
                    self._session, self._url, max_bytes=self._limits.answer_bytes, headers=_JSON, query=query
                )
            return newest_pages(answer, targets=targets, now=self._clock(), unix_now=self._wall_clock())
        except TimeoutError:
            outcome = PageOutcome.TIMEOUT
        except FetchError as error:
            outcome = error.outcome
        except ValueError:
            outcome = PageOutcome.UNREADABLE
        return {target.pod: PageResult(outcome=outcome) for target in targets}

"""Reads metrics of pods from a Prometheus server, for clusters in which the operator cannot reach the pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import aiohttp

from epd_operator.loads.fetch import FetchError, PageObserver, PageOutcome, fetch, ignore_page
from epd_operator.loads.measurements import Measurements, PageResult
from epd_operator.loads.pod_metrics import ENGINE_METRICS, FRONTEND_METRICS
from epd_operator.loads.prometheus_answer import newest_pages
from epd_operator.loads.targets import Target

PODS_PER_QUERY = 50
"""Limits the length of the query's URL and the size of the answer."""
_JSON = {"Accept": "application/json"}
_METRICS = "|".join(sorted({*FRONTEND_METRICS, *ENGINE_METRICS}))


@dataclass(frozen=True, kw_only=True)
class QueryLimits:
    """Limits for queries.

    Attributes:
        window_seconds: maximum age of samples; older samples are ignored.
        query_seconds: timeout of a query.
        round_seconds: timeout of all queries of a deployment together.
        answer_bytes: maximum size of an answer.
    """

    window_seconds: int = 300
    query_seconds: float = 5.0
    round_seconds: float = 10.0
    answer_bytes: int = 8 * 1024 * 1024


def selector(targets: Sequence[Target], *, namespace: str, window_seconds: int) -> str:
    """The query for all needed metrics of these pods.

    Names of pods and namespaces contain only letters, digits, hyphens and dots, so they need no quoting. A dot in a
    regular expression may match more pods, but their series are ignored.
    """
    pods = "|".join(target.pod for target in targets)
    return f'{{__name__=~"{_METRICS}",namespace="{namespace}",pod=~"{pods}"}}[{window_seconds}s]'


class PrometheusSource:
    """Reads the same values as `PodPageReader`, with the times at which Prometheus scraped them."""

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
        """Create the source.

        Args:
            session: session for the queries.
            url: URL of the Prometheus server.
            clock: monotonic time in seconds, for the ages of measurements.
            wall_clock: Unix time in seconds, as in the timestamps of samples.
            observe: called for every page.
            limits: limits for queries.
        """
        self._session = session
        self._url = url.rstrip("/") + "/api/v1/query"
        self._clock = clock
        self._wall_clock = wall_clock
        self._observe = observe
        self._limits = limits or QueryLimits()

    async def scrape(self, targets: Sequence[Target], *, namespace: str) -> Measurements:
        """Read the values of the ready pods of one deployment.

        Errors of the server are not raised: pods without a recent and complete page have no values.
        """
        requested = [target for target in targets if target.ready]
        pages = {target.pod: PageResult(outcome=PageOutcome.ROUND_OVER) for target in requested}
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.round_seconds):
                for start in range(0, len(requested), PODS_PER_QUERY):
                    pages |= await self._query(requested[start : start + PODS_PER_QUERY], namespace=namespace)
        for target in requested:
            self._observe(target.stage, pages[target.pod].outcome)
        return Measurements.of(targets, pages=pages)

    async def _query(self, targets: Sequence[Target], *, namespace: str) -> dict[str, PageResult]:
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

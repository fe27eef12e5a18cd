"""Passes a process's metrics page on to the pod's network, and nothing else of it.

Dynamo has its metrics on a port that takes commands from everybody, too. So that port listens inside the pod only, and
this server hands out the page: no other path, no other method, and nothing of a request reaches the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from epd_worker.fetch import FetchError, Page, fetch
from epd_worker.metrics import MAX_PAGE
from epd_worker.server import Answer, HttpServer, Limits, RefusedError, Request

READ_INTERVAL = 0.25
READ_TIMEOUT = 5.0
LIMITS = Limits(connections=32, keep_asked=False, write_timeout=10.0)
_PLAIN = "text/plain; charset=utf-8"
_KNOWN_TYPES = ("text/plain", "application/openmetrics-text")


class MetricsRelay(HttpServer):
    """Serves GET /metrics with the page at `url`. `clock` gives monotonic seconds."""

    def __init__(self, url: str, *, clock: Callable[[], float], limits: Limits = LIMITS) -> None:
        super().__init__(self._route, limits=limits)
        self._reader = SharedReader(url, clock=clock)

    async def _route(self, request: Request) -> Answer:
        if request.path != "/metrics":
            raise RefusedError(HTTPStatus.NOT_FOUND, "known is /metrics")
        if request.method not in {"GET", "HEAD"}:
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is known here")
        return await self._reader.read()


class SharedReader:
    """Reads a page for everybody: one reading at a time, and `interval` seconds from the start of one to the next.

    A reading is shared by all who asked before it began, so each gets a page that is younger than the question.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], float],
        interval: float = READ_INTERVAL,
        timeout: float = READ_TIMEOUT,
    ) -> None:
        self._url = url
        self._clock = clock
        self._interval = interval
        self._timeout = timeout
        self._not_before = clock()
        self._running: asyncio.Task[Answer] | None = None
        self._next: asyncio.Task[Answer] | None = None

    async def read(self) -> Answer:
        """Return the page, or 503 with the reason."""
        if self._next is None:
            self._next = asyncio.create_task(self._read(after=self._running), name=f"read {self._url}")
        # Whoever leaves must not take the page from the others.
        return await asyncio.shield(self._next)

    async def _read(self, *, after: asyncio.Task[Answer] | None) -> Answer:
        if after is not None:
            await asyncio.wait({after})
        await asyncio.sleep(max(self._not_before - self._clock(), 0.0))
        mine = self._running = self._next
        self._next = None
        self._not_before = self._clock() + self._interval
        try:
            return _passed_on(await fetch(self._url, timeout=self._timeout, limit=MAX_PAGE), url=self._url)
        except FetchError as error:
            return _nothing(str(error))
        finally:
            if self._running is mine:
                self._running = None


def _passed_on(page: Page, *, url: str) -> Answer:
    """The page with a content type that is one of metrics; other headers stay here."""
    if page.status != HTTPStatus.OK:
        return _nothing(f"{url} answers {page.status}")
    if not page.body:
        return _nothing(f"{url} is empty")
    kind = page.content_type
    known = kind.startswith(_KNOWN_TYPES) and kind.isascii() and kind.isprintable()
    return Answer(HTTPStatus.OK, page.body, kind if known else _PLAIN)


def _nothing(reason: str) -> Answer:
    return Answer.of_text(HTTPStatus.SERVICE_UNAVAILABLE, reason)

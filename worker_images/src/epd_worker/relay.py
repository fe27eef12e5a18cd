"""Serves the metrics page of a process on the network of the pod, and nothing else of the process.

Dynamo serves its metrics on a port that also accepts commands from every client. So that port listens only inside the
pod, and this server serves the page: no other path, no other method, and no part of a request reaches the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from epd_worker.fetch import FetchedPage, PageError, fetch
from epd_worker.metrics import MAX_PAGE
from epd_worker.server import HttpAnswer, HttpError, HttpRequest, HttpServer, ServerLimits

READ_INTERVAL = 0.25
READ_TIMEOUT = 5.0
LIMITS = ServerLimits(connections=32, keep_answering=False, write_timeout=10.0)
_PLAIN = "text/plain; charset=utf-8"
_KNOWN_TYPES = ("text/plain", "application/openmetrics-text")


class MetricsRelay(HttpServer):
    """Serves GET /metrics with the page at `url`. `clock` gives monotonic seconds."""

    def __init__(self, url: str, *, clock: Callable[[], float], limits: ServerLimits = LIMITS) -> None:
        super().__init__(self._route, limits=limits)
        self._reader = SharedReader(url, clock=clock)

    async def _route(self, request: HttpRequest) -> HttpAnswer:
        if request.path != "/metrics":
            raise HttpError(HTTPStatus.NOT_FOUND, "not found; available: /metrics")
        if request.method not in {"GET", "HEAD"}:
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are allowed")
        return await self._reader.read()


class SharedReader:
    """Reads a page for all clients: one request at a time, and `interval` seconds from the start of one to the next.

    All clients that asked before a request began share its answer, so no client gets a page older than its own request.
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
        self._running: asyncio.Task[HttpAnswer] | None = None
        self._next: asyncio.Task[HttpAnswer] | None = None

    async def read(self) -> HttpAnswer:
        """Return the page, or 503 with the reason."""
        if self._next is None:
            self._next = asyncio.create_task(self._read(after=self._running), name=f"read {self._url}")
        # A client that disconnects must not cancel the request of the others.
        return await asyncio.shield(self._next)

    async def _read(self, *, after: asyncio.Task[HttpAnswer] | None) -> HttpAnswer:
        if after is not None:
            await asyncio.wait({after})
        await asyncio.sleep(max(self._not_before - self._clock(), 0.0))
        mine = self._running = self._next
        self._next = None
        self._not_before = self._clock() + self._interval
        try:
            return _relayed(await fetch(self._url, timeout=self._timeout, limit=MAX_PAGE), url=self._url)
        except PageError as error:
            return _unavailable(str(error))
        finally:
            if self._running is mine:
                self._running = None


def _relayed(page: FetchedPage, *, url: str) -> HttpAnswer:
    """The page, with its content type if that is one of metrics pages; other headers are not passed on."""
    if page.status != HTTPStatus.OK:
        return _unavailable(f"{url} returned HTTP {page.status}")
    if not page.body:
        return _unavailable(f"{url} returned an empty page")
    kind = page.content_type
    known = kind.startswith(_KNOWN_TYPES) and kind.isascii() and kind.isprintable()
    return HttpAnswer(HTTPStatus.OK, page.body, kind if known else _PLAIN)


def _unavailable(reason: str) -> HttpAnswer:
    return HttpAnswer.of_text(HTTPStatus.SERVICE_UNAVAILABLE, reason)

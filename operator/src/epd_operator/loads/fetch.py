"""HTTP requests for metrics. Answers have a limited size, because a server may be hostile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum

import aiohttp

from epd_operator.api.v1alpha1.topology import StageName


class PageOutcome(StrEnum):
    """Result of reading a page. With every result except OK, there are no values for the pod.

    UNREACHABLE: no connection, or the connection was reset. TIMEOUT: no complete answer in time. ROUND_OVER: the time
    for all pages of the deployment was over first. STATUS: the HTTP status is not 200. TOO_LARGE, COMPRESSED: the
    answer is too large or compressed. PROTOCOL: the answer is not HTTP, or incomplete. UNREADABLE: the page does not
    contain the number of requests. FAULT: an error in the operator, which is logged.
    """

    OK = "ok"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    ROUND_OVER = "round-over"
    STATUS = "status"
    TOO_LARGE = "too-large"
    COMPRESSED = "compressed"
    PROTOCOL = "protocol"
    UNREADABLE = "unreadable"
    FAULT = "fault"


PageObserver = Callable[[StageName, PageOutcome], None]
"""Called for every page, with its stage and outcome."""


def ignore_page(_stage: StageName, _outcome: PageOutcome) -> None:
    """Observer that does nothing."""


_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "epd-operator"}
PAGE_FORMAT = {"Accept": "text/plain;version=0.0.4"}


class FetchError(Exception):
    """The page could not be fetched; the outcome is the cause."""

    def __init__(self, outcome: PageOutcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


@asynccontextmanager
async def open_session(*, connections: int) -> AsyncIterator[aiohttp.ClientSession]:
    """A session that keeps no state between two requests: no connection, cookie, proxy or credentials.

    Connections are not reused. Thousands of idle connections would cost more than a handshake every few seconds, and
    the IP address may belong to another pod at the next request.
    """
    connector = aiohttp.TCPConnector(limit=connections, force_close=True)
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=_HEADERS,
        timeout=aiohttp.ClientTimeout(total=None),  # the callers set timeouts
        auto_decompress=False,
        trust_env=False,
    ) as session:
        yield session


async def fetch(
    session: aiohttp.ClientSession,
    url: str,
    *,
    max_bytes: int,
    headers: Mapping[str, str] = PAGE_FORMAT,
    query: Mapping[str, str] | None = None,
) -> bytes:
    """The body of the answer. The connection is closed as soon as the body exceeds the limit.

    Raises:
        FetchError: there is no answer, its status is not 200, or its body is compressed or larger than the limit.
    """
    try:
        async with session.get(url, params=query, headers=headers, allow_redirects=False) as response:
            try:
                return await _body(response, max_bytes=max_bytes)
            finally:
                response.close()
    except OSError as error:
        # The connection failed or was reset. This includes the connection errors of aiohttp.
        raise FetchError(PageOutcome.UNREACHABLE) from error
    except (aiohttp.ClientError, ValueError) as error:
        raise FetchError(PageOutcome.PROTOCOL) from error


async def _body(response: aiohttp.ClientResponse, *, max_bytes: int) -> bytes:
    if response.status != 200:
        raise FetchError(PageOutcome.STATUS)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise FetchError(PageOutcome.COMPRESSED)
    if (response.content_length or 0) > max_bytes:
        raise FetchError(PageOutcome.TOO_LARGE)
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            raise FetchError(PageOutcome.TOO_LARGE)
    return bytes(body)

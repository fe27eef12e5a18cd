"""HTTP as the scraper uses it: one answer, of bounded size, from a server that may be hostile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum

import aiohttp

from epd_operator.api.v1alpha1.topology import StageName


class PageOutcome(StrEnum):
    """Everything but OK leaves the pod without values.

    UNREACHABLE: no connection, or one that was reset. ROUND_OVER: its turn did not come, or did not end, before the
    round did. PROTOCOL: not HTTP, or cut short. UNREADABLE: a page that does not tell the requests. FAULT: ours; see
    the log.
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
"""Called with stage and outcome for every page."""


def ignore_page(_stage: StageName, _outcome: PageOutcome) -> None:
    """The observer that observes nothing."""


_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "epd-operator"}
PAGE_FORMAT = {"Accept": "text/plain;version=0.0.4"}


class FetchError(Exception):
    """There is no page, and why."""

    def __init__(self, outcome: PageOutcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


@asynccontextmanager
async def open_session(*, connections: int) -> AsyncIterator[aiohttp.ClientSession]:
    """A session that keeps nothing between two pages: no connection, cookie, proxy or credentials.

    Connections are not reused: thousands of idle ones would cost more than a handshake every few seconds, and an
    address may belong to another pod by then.
    """
    connector = aiohttp.TCPConnector(limit=connections, force_close=True)
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=_HEADERS,
        timeout=aiohttp.ClientTimeout(total=None),  # the caller has deadlines of its own
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
    """The body of the answer. The connection is closed at the first byte too much.

    Raises:
        FetchError: the answer is not 200 with a plain body of at most that many bytes, or there is none.
    """
    try:
        async with session.get(url, params=query, headers=headers, allow_redirects=False) as response:
            try:
                return await _body(response, max_bytes=max_bytes)
            finally:
                response.close()
    except OSError as error:
        # Connections that fail or are reset; aiohttp's errors of connecting are among them.
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

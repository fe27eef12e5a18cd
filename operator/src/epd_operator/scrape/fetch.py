"""HTTP as the scraper uses it: one answer, of bounded size, from a server that may be hostile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp

from epd_operator.scrape.outcome import Outcome

_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "epd-operator"}
PAGE_FORMAT = {"Accept": "text/plain;version=0.0.4"}


class FetchError(Exception):
    """There is no page, and why."""

    def __init__(self, outcome: Outcome) -> None:
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
        raise FetchError(Outcome.UNREACHABLE) from error
    except (aiohttp.ClientError, ValueError) as error:
        raise FetchError(Outcome.PROTOCOL) from error


async def _body(response: aiohttp.ClientResponse, *, max_bytes: int) -> bytes:
    if response.status != 200:
        raise FetchError(Outcome.STATUS)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise FetchError(Outcome.COMPRESSED)
    if (response.content_length or 0) > max_bytes:
        raise FetchError(Outcome.TOO_LARGE)
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            raise FetchError(Outcome.TOO_LARGE)
    return bytes(body)

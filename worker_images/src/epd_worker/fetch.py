"""A small asynchronous HTTP client with limits on time and size, for health and metrics pages of the same pod."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit

_MAX_HEAD = 16 * 1024


class PageError(Exception):
    """The page could not be read; the message is the reason in one line."""


class NotListeningError(PageError):
    """No process listens on the port."""


class PageTimeoutError(PageError):
    """The page was not complete in time; the process may only be busy."""


@dataclass(frozen=True)
class FetchedPage:
    """The answer of a process to a GET."""

    status: int
    body: bytes
    content_type: str = ""


async def fetch(url: str, *, timeout: float, limit: int) -> FetchedPage:  # noqa: ASYNC109 - one time limit per page
    """Return the page at an http URL, all of it within `timeout` seconds and `limit` bytes.

    Raises:
        NotListeningError: no process listens.
        PageTimeoutError: the answer took longer.
        PageError: no connection, not HTTP, or larger than the limit.
    """
    try:
        async with asyncio.timeout(timeout):
            return await _fetch(url, limit=limit)
    except TimeoutError:
        raise PageTimeoutError(f"no answer from {url} within {timeout:g} s") from None
    except ConnectionRefusedError:
        raise NotListeningError(f"cannot read {url}: no process listens") from None
    except (OSError, EOFError, ValueError) as error:
        raise PageError(f"cannot read {url}: {_reason(error)}") from None


async def _fetch(url: str, *, limit: int) -> FetchedPage:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    target = parts.path or "/"
    if parts.query:
        target = f"{target}?{parts.query}"
    reader, writer = await asyncio.open_connection(host, port, limit=_MAX_HEAD)
    try:
        # HTTP/1.0: the body ends with the connection and is never sent in chunks.
        writer.write(f"GET {target} HTTP/1.0\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode("ascii"))
        head = await _read_head(reader)
        body = await _read_body(reader, length=_length(head), limit=limit)
        return FetchedPage(status=_status(head), body=body, content_type=_content_type(head))
    finally:
        # Abort rather than close: a peer that never reads must not keep the socket open.
        writer.transport.abort()


async def _read_head(reader: asyncio.StreamReader) -> list[str]:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise ValueError("the header of the answer is too long") from None
    except asyncio.IncompleteReadError:
        raise ValueError("the connection was closed before an HTTP answer") from None
    return raw.decode("latin-1").split("\r\n")


def _status(head: list[str]) -> int:
    words = head[0].split()
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdigit() or len(words[1]) != 3:
        raise ValueError("the answer is not HTTP")
    return int(words[1])


def _length(head: list[str]) -> int | None:
    length: int | None = None
    for line in head[1:]:
        name, _, value = line.partition(":")
        match name.strip().lower():
            case "content-length" if value.strip().isdigit():
                length = int(value)
            case "transfer-encoding":
                raise ValueError("the answer has a transfer encoding, which HTTP/1.0 does not allow")
    return length


def _content_type(head: list[str]) -> str:
    lines = (line.partition(":") for line in head[1:])
    return next((value.strip() for name, _, value in lines if name.strip().lower() == "content-type"), "")


async def _read_body(reader: asyncio.StreamReader, *, length: int | None, limit: int) -> bytes:
    if length is not None and length > limit:
        raise ValueError(f"the page is larger than {limit} bytes")
    body = bytearray()
    while length is None or len(body) < length:
        piece = await reader.read(65536)
        if not piece:
            if length is not None:
                raise ValueError("the page is incomplete")
            break
        body += piece
        if len(body) > limit:
            raise ValueError(f"the page is larger than {limit} bytes")
    return bytes(body if length is None else body[:length])


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:200] or type(error).__name__

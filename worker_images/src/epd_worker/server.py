"""A small HTTP server for untrusted clients: one short request per connection, with limits on size, time and number."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

_PIECE = 64 * 1024
_WITHOUT_BODY = ("GET", "HEAD")


@dataclass(frozen=True)
class ServerLimits:
    """Limits of a server. Times are seconds.

    Attributes:
        connections: maximum number of open connections; a further one closes another.
        keep_answering: whether a connection whose request has arrived is never closed for another. Only a server with
            small answers can afford that.
        unread_bytes: how much of a body is read, and dropped, after the answer.
        unread_timeout: for how long it is read.
    """

    connections: int = 256
    keep_answering: bool = True
    head_bytes: int = 8 * 1024
    head_timeout: float = 5.0
    write_timeout: float = 5.0
    unread_bytes: int = 1024 * 1024
    unread_timeout: float = 1.0


@dataclass(frozen=True)
class HttpRequest:
    """A request. Its body is never used.

    Attributes:
        local: whether it came from inside the pod.
    """

    method: str
    path: str
    local: bool


@dataclass(frozen=True)
class HttpAnswer:
    """An answer to a request."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"

    @classmethod
    def of_text(cls, status: HTTPStatus, text: str) -> HttpAnswer:
        """An answer with one or more lines of text."""
        return cls(status, f"{text}\n".encode(errors="replace"))

    def head(self) -> bytes:
        """The status line and the headers."""
        return (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        ).encode("ascii")


class HttpError(Exception):
    """The request gets an error as its answer; the message is the reason in one line."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class HttpServer:
    """Answers requests on one port of all addresses of the pod. `answer` may raise HttpError."""

    def __init__(self, answer: Callable[[HttpRequest], Awaitable[HttpAnswer]], *, limits: ServerLimits) -> None:
        self._answer = answer
        self._limits = limits
        self._servers: list[asyncio.Server] = []
        self._handlers: set[asyncio.Task[None]] = set()
        # The address of each open connection, and the connections whose request has not arrived yet, oldest first.
        self._open: dict[asyncio.Task[None], str] = {}
        self._waiting: dict[asyncio.Task[None], None] = {}

    async def start(self, port: int) -> None:
        """Listen on the port; raise OSError if it is in use."""
        limit = self._limits.head_bytes
        self._servers.append(await asyncio.start_server(self._serve, "0.0.0.0", port, limit=limit))  # noqa: S104
        # The kubelet of an IPv6 cluster probes the IPv6 address of the pod; hosts without IPv6 refuse this one.
        with suppress(OSError):
            self._servers.append(await asyncio.start_server(self._serve, "::", port, limit=limit))

    async def close(self, *, timeout: float) -> None:  # noqa: ASYNC109 - time limit of the last answers
        """Stop listening, wait up to `timeout` seconds for answers in progress, then close all connections."""
        for server in self._servers:
            server.close()
        if self._handlers:
            await asyncio.wait(self._handlers, timeout=timeout)
        for handler in self._handlers:
            handler.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or (len(self._open) >= self._limits.connections and not self._close_one()):
            writer.transport.abort()
            return
        self._handlers.add(task)
        self._open[task] = _host(writer.get_extra_info("peername"))
        self._waiting[task] = None
        try:
            # Closed for another connection, or with the server: asyncio would log a cancelled handler as an error.
            with suppress(asyncio.CancelledError):
                await self._handle(reader, writer)
        finally:
            self._forget(task)
            self._handlers.discard(task)
            writer.transport.abort()

    def _close_one(self) -> bool:
        """Close a connection of the address that has most of them, if possible one that still waits for its request.

        So no client can keep others from connecting.
        """
        candidates = list(self._waiting if self._limits.keep_answering else self._open)
        if not candidates:
            return False
        ((address, _),) = Counter(self._open[task] for task in candidates).most_common(1)
        of_address = [task for task in candidates if self._open[task] == address]
        chosen = next((task for task in of_address if task in self._waiting), of_address[0])
        self._forget(chosen)
        chosen.cancel()
        return True

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._waiting.pop(task, None)
        self._open.pop(task, None)

    def _request_arrived(self) -> None:
        """Record that the request of the current connection has arrived."""
        if (task := asyncio.current_task()) is not None:
            self._waiting.pop(task, None)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method = ""
        try:
            method, path = await self._read_request(reader)
            self._request_arrived()
            local = is_loopback(writer.get_extra_info("peername"))
            answer = await self._answer(HttpRequest(method=method, path=path, local=local))
        except HttpError as error:
            answer = HttpAnswer.of_text(error.status, str(error))
        except OSError:
            return
        # The client may have disconnected, or never read the answer.
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._limits.write_timeout):
                writer.write(answer.head())
                # In pieces, so that a client that does not read costs little memory.
                body = memoryview(b"" if method == "HEAD" else answer.body)
                for start in range(0, len(body), _PIECE):
                    writer.write(body[start : start + _PIECE])
                    await writer.drain()
                await writer.drain()
                if method not in _WITHOUT_BODY:
                    await self._drop_body(reader, writer)
                writer.close()
                await writer.wait_closed()

    async def _drop_body(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read the body that the client may still be sending, within limits.

        If a connection is closed with unread data, the kernel resets it, and the client may lose the answer
        (https://www.rfc-editor.org/rfc/rfc9112#section-9.6). The answer is complete, so the connection can be closed
        for another one.
        """
        if (task := asyncio.current_task()) in self._open:
            self._waiting[task] = None
        writer.write_eof()
        unread = self._limits.unread_bytes
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.unread_timeout):
                while unread > 0 and (piece := await reader.read(_PIECE)):
                    unread -= len(piece)

    async def _read_request(self, reader: asyncio.StreamReader) -> tuple[str, str]:
        try:
            async with asyncio.timeout(self._limits.head_timeout):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise HttpError(HTTPStatus.REQUEST_TIMEOUT, "the request was not complete in time") from None
        except asyncio.LimitOverrunError:
            raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long") from None
        except asyncio.IncompleteReadError:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the request is incomplete") from None
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the request is not HTTP/1.1")
        return words[0].decode("latin-1"), words[1].decode("latin-1").partition("?")[0]


def _host(peer: object) -> str:
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def is_loopback(peer: object) -> bool:
    """Return whether the address of a peer is inside the network namespace of this pod."""
    if not isinstance(peer, tuple) or not peer:
        return False
    address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    # Before Python 3.13, is_loopback is false for an IPv4 address that is mapped into IPv6.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback

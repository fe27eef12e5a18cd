"""A small HTTP server that anybody may reach: one short request a connection, bounded in size, time and number."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

_PIECE = 64 * 1024


@dataclass(frozen=True)
class Limits:
    """Bounds of a server. Times are seconds.

    Attributes:
        connections: so many are open at a time; a further one ends another.
        keep_asked: whether connections whose request has arrived are spared. They may be, where answers are small.
    """

    connections: int = 256
    keep_asked: bool = True
    head_bytes: int = 8 * 1024
    head_timeout: float = 5.0
    write_timeout: float = 5.0


@dataclass(frozen=True)
class Request:
    """What was asked. Bodies are never read.

    Attributes:
        local: whether it came from inside the pod.
    """

    method: str
    path: str
    local: bool


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"

    @classmethod
    def of_text(cls, status: HTTPStatus, text: str) -> Answer:
        """A line of text, or several."""
        return cls(status, f"{text}\n".encode(errors="replace"))

    def head(self) -> bytes:
        """Everything before the body."""
        return (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        ).encode("ascii")


class RefusedError(Exception):
    """The request is not answered; the message says why in one line."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class HttpServer:
    """Answers requests on one port of all addresses of the pod. `answer` may raise RefusedError."""

    def __init__(self, answer: Callable[[Request], Awaitable[Answer]], *, limits: Limits) -> None:
        self._answer = answer
        self._limits = limits
        self._servers: list[asyncio.Server] = []
        self._handlers: set[asyncio.Task[None]] = set()
        self._open: dict[asyncio.Task[None], str] = {}
        self._silent: dict[asyncio.Task[None], None] = {}

    async def start(self, port: int) -> None:
        """Listen on the port; raise OSError when it is taken."""
        limit = self._limits.head_bytes
        self._servers.append(await asyncio.start_server(self._serve, "0.0.0.0", port, limit=limit))  # noqa: S104
        # The kubelet of an IPv6 cluster probes the pod's IPv6 address; hosts without IPv6 refuse this one.
        with suppress(OSError):
            self._servers.append(await asyncio.start_server(self._serve, "::", port, limit=limit))

    async def close(self, *, timeout: float) -> None:  # noqa: ASYNC109 - the bound of the last answers
        """Stop listening, let answers under way leave within `timeout` seconds, end the rest."""
        for server in self._servers:
            server.close()
        if self._handlers:
            await asyncio.wait(self._handlers, timeout=timeout)
        for handler in self._handlers:
            handler.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or (len(self._open) >= self._limits.connections and not self._make_room()):
            writer.transport.abort()
            return
        self._handlers.add(task)
        self._open[task] = _host(writer.get_extra_info("peername"))
        self._silent[task] = None
        try:
            # Ended to make room, or at the end: asyncio would log a cancelled handler as an error.
            with suppress(asyncio.CancelledError):
                await self._converse(reader, writer)
        finally:
            self._forget(task)
            self._handlers.discard(task)
            writer.transport.abort()

    def _make_room(self) -> bool:
        """End a connection of the address that has most, a silent one if there is: strangers must lock nobody out."""
        candidates = list(self._silent if self._limits.keep_asked else self._open)
        if not candidates:
            return False
        ((greedy, _),) = Counter(self._open[task] for task in candidates).most_common(1)
        theirs = [task for task in candidates if self._open[task] == greedy]
        victim = next((task for task in theirs if task in self._silent), theirs[0])
        self._forget(victim)
        victim.cancel()
        return True

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._silent.pop(task, None)
        self._open.pop(task, None)

    def _spoke(self) -> None:
        """Keep the present connection: its request has arrived."""
        if (task := asyncio.current_task()) is not None:
            self._silent.pop(task, None)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method = ""
        try:
            method, path = await self._read_request(reader)
            self._spoke()
            local = is_loopback(writer.get_extra_info("peername"))
            answer = await self._answer(Request(method=method, path=path, local=local))
        except RefusedError as refusal:
            answer = Answer.of_text(refusal.status, str(refusal))
        except OSError:
            return
        # The other side may be gone or never read: neither is worth more than a few seconds.
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._limits.write_timeout):
                writer.write(answer.head())
                # In pieces: of a page that is not taken only a little is kept for each connection.
                body = memoryview(b"" if method == "HEAD" else answer.body)
                for start in range(0, len(body), _PIECE):
                    writer.write(body[start : start + _PIECE])
                    await writer.drain()
                await writer.drain()
                writer.close()
                await writer.wait_closed()

    async def _read_request(self, reader: asyncio.StreamReader) -> tuple[str, str]:
        try:
            async with asyncio.timeout(self._limits.head_timeout):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time") from None
        except asyncio.LimitOverrunError:
            raise RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long") from None
        except asyncio.IncompleteReadError:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "the request is not complete") from None
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "the request is not HTTP/1.1")
        return words[0].decode("latin-1"), words[1].decode("latin-1").partition("?")[0]


def _host(peer: object) -> str:
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def is_loopback(peer: object) -> bool:
    """Tell whether a socket's peer name is inside this pod's network namespace."""
    if not isinstance(peer, tuple) or not peer:
        return False
    address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    # Python before 3.13 does not see through an IPv4 address mapped into IPv6.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback

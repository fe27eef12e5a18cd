"""The launcher's HTTP server: probes, status, and the drain command.

It reads requests from anybody who reaches the pod, so every request is bounded in size and time, at most
`MAX_CONNECTIONS` are open, and only a connection from this pod itself may change anything.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

MAX_CONNECTIONS = 256
_MAX_HEAD = 8 * 1024
_HEAD_TIMEOUT = 5.0
_WRITE_TIMEOUT = 5.0


class Application(Protocol):
    """What the server asks the launcher."""

    def readiness(self, name: str) -> str | None:
        """Return None when the process is ready, else the reason in one line; KeyError for an unknown name."""

    def liveness(self) -> str | None:
        """Return None while the launcher is well, else the reason in one line."""

    def status(self) -> Mapping[str, object]:
        """Return a JSON object for people and the operator."""

    async def drain(self) -> str:
        """Drain once, however often called; return the summary when it is over."""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: HTTPStatus
    body: str
    content_type: str = "text/plain; charset=utf-8"

    def encode(self) -> bytes:
        """Return the bytes to send."""
        body = f"{self.body}\n".encode(errors="replace")
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode("ascii") + body


class _RefusedError(Exception):
    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class ControlServer:
    """Serves an application on one port of all addresses of the pod."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._servers: list[asyncio.Server] = []
        self._handlers: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], None] = {}

    async def start(self, port: int) -> None:
        """Listen on the port; raise OSError when it is taken."""
        self._servers.append(await asyncio.start_server(self._serve, "0.0.0.0", port, limit=_MAX_HEAD))  # noqa: S104
        # The kubelet of an IPv6 cluster probes the pod's IPv6 address; hosts without IPv6 refuse this one.
        with suppress(OSError):
            self._servers.append(await asyncio.start_server(self._serve, "::", port, limit=_MAX_HEAD))

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
        if task is None or (len(self._handlers) >= MAX_CONNECTIONS and not self._make_room()):
            writer.transport.abort()
            return
        self._handlers.add(task)
        self._silent[task] = None
        try:
            await self._converse(reader, writer)
        finally:
            self._silent.pop(task, None)
            self._handlers.discard(task)
            writer.transport.abort()

    def _make_room(self) -> bool:
        """End the connection that has kept silent longest, if any: strangers must not lock out the kubelet's probes."""
        oldest = next(iter(self._silent), None)
        if oldest is None:
            return False
        del self._silent[oldest]
        return oldest.cancel()

    def _spoke(self) -> None:
        """Keep the present connection: its request has arrived."""
        if (task := asyncio.current_task()) is not None:
            self._silent.pop(task, None)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            method, path = await _read_request(reader)
            self._spoke()
            answer = await self._answer(method, path, local=is_loopback(writer.get_extra_info("peername")))
        except _RefusedError as refusal:
            answer = Answer(refusal.status, str(refusal))
        except OSError:
            return
        # The other side may be gone or never read: neither is worth more than a few seconds.
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_WRITE_TIMEOUT):
                writer.write(answer.encode())
                await writer.drain()
                writer.close()
                await writer.wait_closed()

    async def _answer(self, method: str, path: str, *, local: bool) -> Answer:
        if path == "/drain":
            if method != "POST":
                raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "/drain takes POST")
            if not local:
                raise _RefusedError(HTTPStatus.FORBIDDEN, "a drain can be asked for from inside the pod only")
            return Answer(HTTPStatus.OK, await self._application.drain())
        if method not in {"GET", "HEAD"}:
            raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is known here")
        if path == "/live":
            return _probe(self._application.liveness(), well="live")
        if path == "/status":
            return Answer(HTTPStatus.OK, json.dumps(self._application.status(), indent=2), "application/json")
        if path.startswith("/ready/"):
            try:
                return _probe(self._application.readiness(path.removeprefix("/ready/")), well="ready")
            except KeyError:
                raise _RefusedError(HTTPStatus.NOT_FOUND, "no process has this name; see /status") from None
        raise _RefusedError(HTTPStatus.NOT_FOUND, "known are /ready/<name>, /live, /status and POST /drain")


def _probe(reason: str | None, *, well: str) -> Answer:
    return Answer(HTTPStatus.OK, well) if reason is None else Answer(HTTPStatus.SERVICE_UNAVAILABLE, reason)


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str]:
    try:
        async with asyncio.timeout(_HEAD_TIMEOUT):
            head = await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time") from None
    except asyncio.LimitOverrunError:
        raise _RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long") from None
    except asyncio.IncompleteReadError:
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "the request is not complete") from None
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "the request is not HTTP/1.1")
    return words[0].decode("latin-1"), words[1].decode("latin-1").partition("?")[0]


def is_loopback(peer: object) -> bool:
    """Tell whether a socket's peer name is inside this pod's network namespace."""
    if not isinstance(peer, tuple) or not peer:
        return False
    address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    # Python before 3.13 does not see through an IPv4 address mapped into IPv6.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback

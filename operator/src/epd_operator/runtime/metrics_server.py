"""Serves /metrics from a thread of its own, so that an event loop that is stuck can still be looked at."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import io
import logging
import socket
import threading
from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, generate_latest

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 16
"""Beyond this, a new connection is closed at once."""
MAX_REQUEST_BYTES = 16 * 1024
DEADLINE_SECONDS = 10.0
"""For a whole exchange, however slowly the other side sends or reads."""
BACKLOG = 64


class MetricsServer:
    """HTTP for scrapers: one GET per connection, bounded in number, size and time."""

    def __init__(self, registry: CollectorRegistry, *, deadline: float = DEADLINE_SECONDS) -> None:
        self._registry = registry
        self._deadline = deadline
        self._open = 0

    def start(self, port: int) -> int:
        """Serve on all addresses until the process ends; returns the port, which was chosen where 0 is given.

        Raises:
            OSError: the port is taken.
        """
        listening = _listen(port)
        threading.Thread(target=self._run, args=(listening,), name="metrics", daemon=True).start()
        bound: int = listening.getsockname()[1]
        return bound

    def _run(self, listening: socket.socket) -> None:
        try:
            asyncio.run(self._serve(listening))
        except Exception:
            logger.exception("metrics are no longer served")

    async def _serve(self, listening: socket.socket) -> None:
        server = await asyncio.start_server(self._exchange, sock=listening, limit=MAX_REQUEST_BYTES, backlog=BACKLOG)
        async with server:
            await server.serve_forever()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._open += 1
        try:
            async with asyncio.timeout(self._deadline):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            # The other side left, is too slow or says too much.
            pass
        finally:
            self._open -= 1
            writer.transport.abort()

    def _answer(self, head: bytes) -> bytes:
        line, _, rest = head.partition(b"\r\n")
        words = line.decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        if method not in ("GET", "HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, HEAD"})
        if target.partition("?")[0] not in ("/metrics", "/"):
            return _response(HTTPStatus.NOT_FOUND)
        try:
            headers = http.client.parse_headers(io.BytesIO(rest))
        except http.client.HTTPException:
            return _response(HTTPStatus.BAD_REQUEST)
        try:
            return self._page(headers, with_body=method == "GET")
        except Exception:
            logger.exception("metrics could not be shown")
            return _response(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _page(self, headers: http.client.HTTPMessage, *, with_body: bool) -> bytes:
        try:
            encode, content_type = choose_encoder(" ".join(headers.get("Accept", "").split()))
        except (ValueError, TypeError):
            # A version that is none.
            encode, content_type = generate_latest, choose_encoder("")[1]
        page = encode(self._registry)
        shown = {"Content-Type": content_type}
        if "gzip" in headers.get("Accept-Encoding", ""):
            page = gzip.compress(page, compresslevel=1)
            shown["Content-Encoding"] = "gzip"
        return _response(HTTPStatus.OK, headers=shown, body=page, with_body=with_body)


def _listen(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            # A kernel may know IPv6 and have it switched off; that the port is taken is told by the other try too.
            logger.debug("no IPv6 for metrics: %s", error)
    return socket.create_server(("", port))


def _response(
    status: HTTPStatus, *, headers: dict[str, str] | None = None, body: bytes | None = None, with_body: bool = True
) -> bytes:
    text = f"{status.value} {status.phrase}\n".encode() if body is None else body
    shown = {"Content-Type": "text/plain; charset=utf-8"} | (headers or {})
    shown |= {"Content-Length": str(len(text)), "Connection": "close"}
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in shown.items())]
    return "\r\n".join([*lines, "", ""]).encode() + (text if with_body else b"")

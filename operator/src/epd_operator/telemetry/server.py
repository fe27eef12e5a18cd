"""A small web server in a thread of its own, so that an event loop that is stuck can still be looked at."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import io
import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import choose_encoder, generate_latest

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 128
"""Beyond this, a new connection ends another: whoever is slow must not lock out the kubelet and Prometheus."""
MAX_REQUEST_BYTES = 16 * 1024
DEADLINE_SECONDS = 10.0
"""For a whole exchange, however slowly the other side sends or reads."""
BACKLOG = 64


@dataclass(frozen=True, kw_only=True)
class Response:
    """An answer; without a body it says its status in words."""

    status: HTTPStatus
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    def encode(self, *, with_body: bool) -> bytes:
        """As it goes over the wire."""
        text = f"{self.status.value} {self.status.phrase}\n".encode() if self.body is None else self.body
        shown = {"Content-Type": "text/plain; charset=utf-8", **self.headers}
        shown |= {"Content-Length": str(len(text)), "Connection": "close"}
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in shown.items()]
        return "\r\n".join([*lines, "", ""]).encode() + (text if with_body else b"")


Page = Callable[[http.client.HTTPMessage], Response]
"""Makes an answer from the headers of a request; called in the server's thread."""


class WebServer:
    """HTTP for probes and scrapers: one GET per connection, bounded in number, size and time."""

    def __init__(self, pages: Mapping[str, Page], *, name: str, deadline: float = DEADLINE_SECONDS) -> None:
        self._pages = pages
        self._name = name
        self._deadline = deadline
        self._open: dict[asyncio.StreamWriter, str] = {}

    def start(self, port: int) -> int:
        """Serve on all addresses until the process ends; returns the port, which was chosen where 0 is given.

        Raises:
            OSError: the port is taken.
        """
        listening = _listen(port)
        threading.Thread(target=self._run, args=(listening,), name=self._name, daemon=True).start()
        bound: int = listening.getsockname()[1]
        return bound

    def _run(self, listening: socket.socket) -> None:
        try:
            asyncio.run(self._serve(listening))
        except Exception:
            logger.exception("%s: no longer served", self._name)

    async def _serve(self, listening: socket.socket) -> None:
        server = await asyncio.start_server(self._exchange, sock=listening, limit=MAX_REQUEST_BYTES, backlog=BACKLOG)
        async with server:
            await server.serve_forever()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MAX_CONNECTIONS:
            self._make_room()
        self._open[writer] = str((writer.get_extra_info("peername") or ("",))[0])
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
            self._open.pop(writer, None)
            writer.transport.abort()

    def _make_room(self) -> None:
        """End the oldest connection of the address that has most of them."""
        counts = Counter(self._open.values())
        busiest = max(counts.values())
        oldest = next(writer for writer, address in self._open.items() if counts[address] == busiest)
        del self._open[oldest]
        oldest.transport.abort()

    def _answer(self, head: bytes) -> bytes:
        line, _, rest = head.partition(b"\r\n")
        words = line.decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return Response(status=HTTPStatus.BAD_REQUEST).encode(with_body=True)
        method, target, _ = words
        return self._respond(method, target.partition("?")[0], rest).encode(with_body=method != "HEAD")

    def _respond(self, method: str, path: str, rest: bytes) -> Response:
        if method not in ("GET", "HEAD"):
            return Response(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, HEAD"})
        page = self._pages.get(path)
        if page is None:
            return Response(status=HTTPStatus.NOT_FOUND)
        try:
            headers = http.client.parse_headers(io.BytesIO(rest))
        except http.client.HTTPException:
            return Response(status=HTTPStatus.BAD_REQUEST)
        try:
            return page(headers)
        except Exception:
            logger.exception("%s: %s could not be shown", self._name, path)
            return Response(status=HTTPStatus.INTERNAL_SERVER_ERROR)


def _listen(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            # A kernel may know IPv6 and have it switched off; that the port is taken is told by the other try too.
            logger.debug("no IPv6 on port %d: %s", port, error)
    return socket.create_server(("", port))


class MetricsServer(WebServer):
    """The metrics of a registry, as they are when somebody looks."""

    def __init__(self, registry: CollectorRegistry, *, deadline: float = DEADLINE_SECONDS) -> None:
        super().__init__({"/metrics": self._page, "/": self._page}, name="metrics", deadline=deadline)
        self._registry = registry
        # Of the whole process. The times at which series began double the page, and nobody asks for them.
        disable_created_metrics()  # type: ignore[no-untyped-call]

    def _page(self, headers: http.client.HTTPMessage) -> Response:
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
        return Response(status=HTTPStatus.OK, headers=shown, body=page)

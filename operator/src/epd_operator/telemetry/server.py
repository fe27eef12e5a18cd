"""HTTP servers with their own threads and event loops: they also answer while the main event loop is blocked."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import cast

from aiohttp import HttpVersion11, web
from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import choose_encoder, generate_latest

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 128
"""Maximum number of connections; a new one beyond it closes another, so that slow clients cannot lock out the kubelet
and Prometheus."""
MAX_REQUEST_BYTES = 16 * 1024
DEADLINE_SECONDS = 10.0
"""Time limit of one request and its response, in seconds."""
BACKLOG = 64
"""Maximum number of connections that wait to be accepted. A larger number would delay scrapes."""

Page = Callable[[web.Request], Awaitable[web.Response]]
"""Makes the response to a request; called in the server's thread."""


class WebServer:
    """HTTP for probes and scrapers: one GET or HEAD per connection, bounded in number, size and time."""

    def __init__(self, pages: Mapping[str, Page], *, name: str, deadline: float = DEADLINE_SECONDS) -> None:
        self._pages = pages
        self._name = name
        self._deadline = deadline

    def start(self, port: int) -> int:
        """Serve on all addresses until the process ends; returns the port, which the system chooses if 0 is given.

        An error that ends the thread is logged by `threading.excepthook`.

        Raises:
            OSError: the port is taken.
        """
        listening = _listen(port)
        threading.Thread(target=asyncio.run, args=(self._serve(listening),), name=self._name, daemon=True).start()
        bound: int = listening.getsockname()[1]
        return bound

    async def _serve(self, listening: socket.socket) -> None:
        app = web.Application()
        app.add_routes([web.get(path, page) for path, page in self._pages.items()])
        runner = web.AppRunner(app)
        await runner.setup()
        server = cast("web.Server", runner.server)
        make = server.request_factory
        # Every response has HTTP/1.1, as RFC 9112 requires. aiohttp would answer a malformed request with HTTP/1.0.
        server.request_factory = lambda message, *rest: make(message._replace(version=HttpVersion11), *rest)
        connect = partial(_Connection, server, {}, deadline=self._deadline)
        listener = await asyncio.get_running_loop().create_server(connect, sock=listening, backlog=BACKLOG)
        await listener.serve_forever()


def check_page(check: Callable[[], Sequence[str]]) -> Page:
    """A page for a probe, from a check that returns the reasons for failure: 503 with the reasons, or 200."""

    async def page(_: web.Request) -> web.Response:
        reasons = check()
        return web.Response(status=503 if reasons else 200, text="\n".join(reasons or ["ok"]) + "\n")

    return page


class _Connection(web.RequestHandler):
    """A connection of aiohttp with limits: number of connections, one request, its size, and its time."""

    def __init__(self, server: web.Server, connections: dict[asyncio.Transport, str], *, deadline: float) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            lingering_time=0,  # no page reads a body
            auto_decompress=False,
        )
        self._connections = connections
        self._deadline = deadline
        self._received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, and close another one if there are too many."""
        # aiohttp drops its own reference while a response may still be being sent.
        self._socket = cast("asyncio.Transport", transport)
        if len(self._connections) >= MAX_CONNECTIONS:
            _close_one(self._connections)
        self._connections[self._socket] = str((transport.get_extra_info("peername") or ("",))[0])
        self._timer = self._loop.call_later(self._deadline, self._socket.abort)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count the connection no longer."""
        self._timer.cancel()
        self._connections.pop(self._socket, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse a part of the request; a client that sends too much is disconnected."""
        self._received += len(data)
        if self._received > MAX_REQUEST_BYTES:
            self._socket.abort()
        else:
            super().data_received(data)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Report a page that fails. A malformed request is the client's fault and causes no log line."""
        if status >= 500:
            logger.error("the page %s could not be generated", request.path, exc_info=exc)
        return web.Response(status=status, text=message or f"{status}\n")

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the response, without the versions of aiohttp and Python, and close the connection."""
        resp.headers["Server"] = "epd-operator"
        resp.force_close()
        return await super().finish_response(request, resp, start_time)


def _close_one(connections: dict[asyncio.Transport, str]) -> None:
    """Close the oldest connection of the address that has the most connections."""
    counts = Counter(connections.values())
    busiest = max(counts.values())
    oldest = next(transport for transport, address in connections.items() if counts[address] == busiest)
    del connections[oldest]
    oldest.abort()


def _listen(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            # A kernel may support IPv6 and have it disabled. If the port is taken, the attempt below fails too.
            logger.debug("no IPv6 on port %d: %s", port, error)
    return socket.create_server(("", port))


class MetricsServer(WebServer):
    """Serves the metrics of a registry, computed at each request."""

    def __init__(self, registry: CollectorRegistry, *, deadline: float = DEADLINE_SECONDS) -> None:
        super().__init__({"/metrics": self._page, "/": self._page}, name="metrics", deadline=deadline)
        self._registry = registry
        # For the whole process. The creation times of series would double the page, and are not needed.
        disable_created_metrics()  # type: ignore[no-untyped-call]

    async def _page(self, request: web.Request) -> web.Response:
        try:
            encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        except (ValueError, TypeError):
            # The header is malformed.
            encode, content_type = generate_latest, choose_encoder("")[1]
        page = encode(self._registry)
        headers = {"Content-Type": content_type}
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            page = gzip.compress(page, compresslevel=1)
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=page, headers=headers)

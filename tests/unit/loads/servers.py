"""HTTP servers on loopback that misbehave as pods can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Behaviour = Callable[["Server", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """Requests and connections of a server."""

    url: str = ""
    requests: list[str] = field(default_factory=list)
    sent: int = 0
    active: int = 0
    most_active: int = 0
    arrived: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def serving(behaviour: Behaviour) -> AsyncIterator[Server]:
    """A server on its own port that answers every request with this behaviour."""
    server = Server()
    handlers: set[asyncio.Task[None] | None] = set()

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.add(asyncio.current_task())
        try:
            server.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            server.active += 1
            server.most_active = max(server.most_active, server.active)
            server.arrived.release()
            try:
                await behaviour(server, writer)
            finally:
                server.active -= 1
        except (OSError, asyncio.IncompleteReadError):
            server.disconnected.set()
        finally:
            writer.close()

    listening = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/metrics"
    try:
        yield server
    finally:
        server.release.set()
        listening.close()
        for handler in handlers:
            if handler is not None:
                await asyncio.wait([handler], timeout=5)


def answering(body: bytes, *, status: str = "200 OK", headers: str = "", length: int | None = None) -> Behaviour:
    """Responds with this body."""

    async def behave(server: Server, writer: asyncio.StreamWriter) -> None:
        size = len(body) if length is None else length
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{headers}\r\n".encode() + body)
        await writer.drain()

    return behave


def sending_raw(raw: bytes) -> Behaviour:
    """Sends these bytes and closes the connection."""

    async def behave(server: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return behave


async def silent(server: Server, writer: asyncio.StreamWriter) -> None:
    """Accepts the connection and never responds."""
    await server.release.wait()


def sending_endlessly(head: bytes, part: bytes, *, pause: float = 0.0) -> Behaviour:
    """Sends the head, and then the same bytes repeatedly until the client disconnects."""

    async def behave(server: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not server.release.is_set():
            writer.write(part)
            await writer.drain()
            server.sent += len(part)
            await asyncio.sleep(pause)

    return behave


def once_released(body: bytes) -> Behaviour:
    """Responds only after ``release`` is set."""

    async def behave(server: Server, writer: asyncio.StreamWriter) -> None:
        await server.release.wait()
        await answering(body)(server, writer)

    return behave

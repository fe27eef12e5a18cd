"""Real HTTP servers on loopback that behave as badly as pods may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Behaviour = Callable[["Server", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """What a server saw."""

    url: str = ""
    requests: list[str] = field(default_factory=list)
    sent: int = 0
    active: int = 0
    most_active: int = 0
    arrived: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def serving(behaviour: Behaviour) -> AsyncIterator[Server]:
    """A server that answers every request in this way, on a port of its own."""
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
            server.hung_up.set()
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
    """Answers with this body."""

    async def behave(server: Server, writer: asyncio.StreamWriter) -> None:
        size = len(body) if length is None else length
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{headers}\r\n".encode() + body)
        await writer.drain()

    return behave


def saying(raw: bytes) -> Behaviour:
    """Sends these bytes and hangs up."""

    async def behave(server: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return behave


async def silent(server: Server, writer: asyncio.StreamWriter) -> None:
    """Accepts and never answers."""
    await server.release.wait()


def pouring(head: bytes, drop: bytes, *, pause: float = 0.0) -> Behaviour:
    """Sends the head, then the same bytes again and again until the client hangs up."""

    async def behave(server: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not server.release.is_set():
            writer.write(drop)
            await writer.drain()
            server.sent += len(drop)
            await asyncio.sleep(pause)

    return behave


def once_released(body: bytes) -> Behaviour:
    """Answers nobody until it is released."""

    async def behave(server: Server, writer: asyncio.StreamWriter) -> None:
        await server.release.wait()
        await answering(body)(server, writer)

    return behave

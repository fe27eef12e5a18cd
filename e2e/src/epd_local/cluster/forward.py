"""Forward connections from a listening socket of the machine to an address inside the cluster.

A socket opened before its holder enters a network namespace keeps accepting connections from where it was opened.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
from collections.abc import Sequence

BUFFER_BYTES = 256 * 1024
CONNECT_SECONDS = 10.0


def arguments(*, descriptor: int, port: int, name: str, target: str) -> list[str]:
    """Return the arguments of a forwarder.

    Args:
        descriptor: the listening socket.
        port: its local port, for whoever looks at the process.
        name: what is reached, such as ``default/demo:80``.
        target: ``ADDRESS:PORT`` inside the cluster.
    """
    return ["--descriptor", str(descriptor), "--port", str(port), "--name", name, "--target", target]


def descriptor_in(words: Sequence[str]) -> int:
    """Return the listening socket that a forwarder's arguments name."""
    return int(_parse(words).descriptor)


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="forward")
    parser.add_argument("--descriptor", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--target", required=True)
    return parser.parse_args(list(words))


def run(words: Sequence[str]) -> None:
    """Forward until the cluster ends."""
    parsed = _parse(words)
    host, _, port = parsed.target.rpartition(":")
    listening = socket.socket(fileno=parsed.descriptor)
    asyncio.run(serve(listening, host=host, port=int(port)))


async def serve(listening: socket.socket, *, host: str, port: int) -> None:
    """Accept on a listening socket and connect each client to *host*:*port*."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                upstream_reader, upstream_writer = await asyncio.open_connection(host, port, limit=BUFFER_BYTES)
        except (OSError, TimeoutError):
            writer.close()  # the client sees a closed connection, as from a port that nobody serves
            return
        await asyncio.gather(_pump(reader, upstream_writer), _pump(upstream_reader, writer))
        for side in (upstream_writer, writer):
            side.close()

    server = await asyncio.start_server(handle, sock=listening, limit=BUFFER_BYTES)
    async with server:
        await server.serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction; its end is passed on, while the other direction may go on."""
    try:
        while data := await reader.read(BUFFER_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()

"""Forwards connections from a listening socket of the machine to an address inside the cluster.

A socket that was opened before its process entered a network namespace still accepts connections of the old one.
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
        port: its local port, shown in the command line of the process.
        name: name of the target, such as ``default/demo:80``.
        target: ``ADDRESS:PORT`` inside the cluster.
    """
    return ["--descriptor", str(descriptor), "--port", str(port), "--name", name, "--target", target]


def descriptor_in(words: Sequence[str]) -> int:
    """Return the listening socket in the arguments of a forwarder."""
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
            writer.close()  # the client sees a closed connection
            return
        await asyncio.gather(_pump(reader, upstream_writer), _pump(upstream_reader, writer))
        for side in (upstream_writer, writer):
            side.close()

    server = await asyncio.start_server(handle, sock=listening, limit=BUFFER_BYTES)
    async with server:
        await server.serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction and pass on its end; the other direction may continue."""
    try:
        while data := await reader.read(BUFFER_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()

"""The small HTTP server of the launcher, with clients on real sockets."""

from __future__ import annotations

import asyncio
import socket
from http import HTTPStatus

import pytest

from epd_worker.server import HttpAnswer, HttpRequest, HttpServer, ServerLimits

BODY = b"x" * 1000


async def answer(request: HttpRequest) -> HttpAnswer:
    return HttpAnswer.of_text(HTTPStatus.NOT_FOUND, f"no {request.path}")


@pytest.fixture
async def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    server = HttpServer(answer, limits=ServerLimits(unread_timeout=60, unread_bytes=3 * len(BODY)))
    await server.start(number)
    yield number
    await server.close(timeout=0)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def all_of(client: socket.socket) -> bytes:
    """What the server sends until it ends its side of the connection."""
    return b"".join(iter(lambda: client.recv(65536), b""))


def post(port: int, *, pieces: int) -> bytes:
    """The answer to a client that sends the body after the answer has arrived, as a slow client may do."""
    with connected(port) as client:
        client.sendall(b"POST /engine HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (pieces * len(BODY)))
        found = all_of(client)
        for _ in range(pieces):
            client.sendall(BODY)
        return found


async def test_a_client_that_still_sends_its_body_is_not_cut_off(port):
    for _ in range(5):
        found = await asyncio.to_thread(post, port, pieces=2)
        assert found.startswith(b"HTTP/1.1 404 Not Found")
        assert found.endswith(b"no /engine\n")


async def test_an_endless_body_is_cut_off(port):
    with pytest.raises(ConnectionError):
        await asyncio.to_thread(post, port, pieces=100_000)


async def test_a_request_without_a_body_is_not_waited_for(port):
    def get() -> bytes:
        with connected(port) as client:
            client.sendall(b"GET /engine HTTP/1.1\r\nHost: x\r\n\r\n")
            found = all_of(client)
            # The server has closed both sides, so it resets the connection instead of reading.
            with pytest.raises(ConnectionError):
                client.sendall(BODY * 100_000)
            return found

    assert (await asyncio.to_thread(get)).startswith(b"HTTP/1.1 404 Not Found")

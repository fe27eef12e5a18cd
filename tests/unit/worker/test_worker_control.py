"""The control server: valid and invalid requests, from inside and outside of the pod, and too many of them."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from epd_worker import server as http_server
from epd_worker.control import ControlServer
from epd_worker.server import ServerLimits, is_loopback


class Application:
    def __init__(self):
        self.drains = 0
        self.asked = asyncio.Event()
        self.release = asyncio.Event()

    def readiness(self, name):
        return {"up": None, "down": "down has not started yet"}[name]

    def liveness(self):
        return None

    def status(self):
        return {"state": "running"}

    async def drain(self):
        self.drains += 1
        self.asked.set()
        await self.release.wait()
        return "up: drained"


def _with_server(scenario, **limits):
    """Run `scenario(application, port)` against a fresh server."""

    async def run():
        application = Application()
        server = ControlServer(application, limits=ServerLimits(**limits))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        await server.start(port)
        try:
            return await scenario(application, port)
        finally:
            await server.close(timeout=5)

    return asyncio.run(asyncio.wait_for(run(), 60))


async def _send(port, data, *, end=True):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        if end:
            writer.write_eof()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def _request(data, *, end=True, **limits):
    return _with_server(lambda _application, port: _send(port, data, end=end), **limits)


def _status(answer):
    return int(answer.split()[1])


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /ready/up HTTP/1.1", 200, "ready"),
        ("GET /ready/up?x=1 HTTP/1.0", 200, "ready"),
        ("GET /ready/down HTTP/1.1", 503, "down has not started yet"),
        ("GET /ready/nobody HTTP/1.1", 404, "no process has this name"),
        ("GET /ready/ HTTP/1.1", 404, "no process has this name"),
        ("GET /live HTTP/1.1", 200, "live"),
        ("GET / HTTP/1.1", 404, "not found; available"),
        ("GET /../etc/passwd HTTP/1.1", 404, "not found; available"),
        ("POST /live HTTP/1.1", 405, "only GET"),
        ("GET /drain HTTP/1.1", 405, "/drain accepts only POST"),
        ("BREW /ready/up HTTP/1.1", 405, "only GET"),
        ("GET http://evil/ HTTP/1.1", 400, "not HTTP"),
        ("GET /live HTTP/2", 400, "not HTTP"),
        ("GET  /live HTTP/1.1", 400, "not HTTP"),
        ("hello", 400, "not HTTP"),
    ],
)
def test_requests_are_answered(request_line, status, body):
    answer = _request(f"{request_line}\r\nHost: x\r\n\r\n".encode())
    assert _status(answer) == status
    assert body.encode() in answer


def test_status_is_json():
    answer = _request(b"GET /status HTTP/1.1\r\n\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"state": "running"}


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 400),
        (b"GET /live HTTP/1.1\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(range(256)), 400),
        (b"\r\n\r\n", 400),
        (b"GET /\xff\xfe HTTP/1.1\r\n\r\n", 404),
        (b"GET /ready/\x00 HTTP/1.1\r\n\r\n", 404),
    ],
)
def test_garbage_is_refused(data, status):
    assert _status(_request(data)) == status


def test_an_endless_head_is_cut_off():
    answer = _request(b"GET /live HTTP/1.1\r\n" + b"X: y\r\n" * 10_000)
    assert answer == b"" or _status(answer) == 431


def test_a_request_that_never_ends_is_refused_after_the_time_limit():
    assert _status(_request(b"GET /live HT", end=False, head_timeout=0.05)) == 408


def test_a_head_request_gets_headers_without_a_body():
    head, end, body = _request(b"HEAD /live HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")
    assert (_status(head), end, body) == (200, b"\r\n\r\n", b"")
    assert b"Content-Length: 5" in head


def test_idle_connections_do_not_block_probes():
    async def scenario(_application, port):
        idle = [asyncio.create_task(_send(port, b"GET", end=False)) for _ in range(20)]
        await asyncio.gather(*idle)
        return await _send(port, b"GET /live HTTP/1.1\r\n\r\n")

    assert _status(_with_server(scenario, connections=5, head_timeout=0.2)) == 200


def test_a_probe_is_answered_while_other_clients_hold_all_connections_open():
    async def scenario(application, port):
        hook = asyncio.create_task(_send(port, b"POST /drain HTTP/1.1\r\n\r\n"))
        await application.asked.wait()
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        probe = await _send(port, b"GET /live HTTP/1.1\r\n\r\n")
        for _, writer in idle:
            writer.close()
        application.release.set()
        return probe, await hook

    probe, drained = _with_server(scenario, connections=5, head_timeout=60.0)
    assert _status(probe) == 200
    assert b"up: drained" in drained


def test_a_probe_is_answered_while_a_drain_waits():
    async def scenario(application, port):
        hook = asyncio.create_task(_send(port, b"POST /drain HTTP/1.1\r\n\r\n", end=False))
        await application.asked.wait()
        probe = await _send(port, b"GET /ready/up HTTP/1.1\r\n\r\n")
        assert not hook.done()
        application.release.set()
        return probe, await hook

    probe, hook = _with_server(scenario)
    assert _status(probe) == 200
    assert hook.endswith(b"up: drained\n")


def test_a_client_outside_the_pod_can_read_but_not_drain(monkeypatch):
    monkeypatch.setattr(http_server, "is_loopback", lambda _peer: False)

    async def scenario(application, port):
        refused = await _send(port, b"POST /drain HTTP/1.1\r\n\r\n")
        return refused, await _send(port, b"GET /live HTTP/1.1\r\n\r\n"), application.drains

    refused, live, drains = _with_server(scenario)
    assert (_status(refused), _status(live), drains) == (403, 200, 0)


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (("127.0.0.1", 1), True),
        (("127.8.9.1", 1), True),
        (("::1", 1, 0, 0), True),
        (("::ffff:127.0.0.1", 1, 0, 0), True),
        (("10.244.1.7", 1), False),
        (("::ffff:10.244.1.7", 1, 0, 0), False),
        (("fe80::1%eth0", 1, 0, 2), False),
        (None, False),
        ("", False),
    ],
)
def test_only_loopback_addresses_are_inside_the_pod(peer, expected):
    assert is_loopback(peer) is expected

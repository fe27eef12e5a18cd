"""Other pods can read the metrics of a process, and cannot send it commands or block it."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace

import pytest

from epd_worker.metrics import MAX_PAGE
from epd_worker.relay import LIMITS, READ_INTERVAL, MetricsRelay, SharedReader

PAGE = b"vllm:num_requests_running 1\n"


class Process:
    """A process with a metrics page that records all requests."""

    def __init__(self, answer=b"HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n" + PAGE):
        self.answer = answer
        self.asked = []
        self.busy = 0
        self.most_at_a_time = 0
        self.began = asyncio.Event()
        self.release = asyncio.Event()
        self.release.set()
        self.port = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/metrics"

    async def serve(self, reader, writer):
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        self.began.set()
        self.busy += 1
        self.most_at_a_time = max(self.most_at_a_time, self.busy)
        await self.release.wait()
        self.busy -= 1
        writer.write(self.answer)
        writer.close()


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _with_relay(scenario, *, process=None, **limits):
    """Run `scenario(process, port)` against the relay of a process."""

    async def run():
        it = process() if process is not None else Process()
        engine = await asyncio.start_server(it.serve, "127.0.0.1", 0)
        it.port = engine.sockets[0].getsockname()[1]
        relay = MetricsRelay(it.url, clock=time.monotonic, limits=replace(LIMITS, **limits))
        port = _free_port()
        await relay.start(port)
        try:
            return await scenario(it, port)
        finally:
            it.release.set()
            await relay.close(timeout=5)
            engine.close()

    return asyncio.run(asyncio.wait_for(run(), 60))


async def _send(port, data, *, source="127.0.0.1"):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        writer.write(data)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def _status(answer):
    return int(answer.split()[1])


def _body(answer):
    return answer.partition(b"\r\n\r\n")[2]


def test_the_page_is_passed_on_as_it_is():
    answer = _with_relay(lambda _process, port: _send(port, GET))
    assert _status(answer) == 200
    assert b"Content-Type: text/plain; version=0.0.4\r\n" in answer
    assert _body(answer) == PAGE


def test_a_head_costs_no_body():
    answer = _with_relay(lambda _process, port: _send(port, b"HEAD /metrics HTTP/1.1\r\n\r\n"))
    assert (_status(answer), _body(answer)) == (200, b"")
    assert f"Content-Length: {len(PAGE)}".encode() in answer


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("POST /engine/control/sleep", 404),
        ("GET /engine/control/sleep", 404),
        ("POST /engine/update_weights_from_disk", 404),
        ("GET /health", 404),
        ("GET /", 404),
        ("GET /metrics/", 404),
        ("GET /metrics/../engine/control/sleep", 404),
        ("GET //metrics", 404),
        ("GET /Metrics", 404),
        ("GET /metrics%00", 404),
        ("POST /metrics", 405),
        ("PUT /metrics", 405),
        ("DELETE /metrics", 405),
        ("PATCH /metrics", 405),
        ("OPTIONS /metrics", 405),
        ("get /metrics", 405),
        ("CONNECT 127.0.0.1:9190", 400),
        ("GET http://127.0.0.1:9190/engine/control/sleep", 400),
    ],
)
def test_nothing_else_reaches_the_process(line, status):
    async def scenario(process, port):
        return await _send(port, f"{line} HTTP/1.1\r\nContent-Length: 0\r\n\r\n".encode()), process.asked

    answer, asked = _with_relay(scenario)
    assert _status(answer) == status
    assert asked == []


def test_no_part_of_a_request_reaches_the_process():
    async def scenario(process, port):
        request = b"GET /metrics?x=/engine HTTP/1.1\r\nHost: evil\r\nX-Method: POST\r\nContent-Length: 60\r\n\r\n"
        await _send(port, request + b"POST /engine/control/sleep HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        return process.asked, process.port

    asked, engine = _with_relay(scenario)
    assert asked == [f"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1:{engine}\r\nConnection: close\r\n\r\n".encode()]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.0 500 Oops\r\n\r\nsecret", "returned HTTP 500"),
        (b"HTTP/1.0 204 No Content\r\n\r\n", "returned HTTP 204"),
        (b"HTTP/1.0 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n", "returned HTTP 302"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "returned an empty page"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 999\r\n\r\nearly end", "page is incomplete"),
        (f"HTTP/1.0 200 OK\r\nContent-Length: {MAX_PAGE + 1}\r\n\r\n".encode(), "larger than"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * (MAX_PAGE + 1), "larger than"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "not HTTP"),
        (b"", "before an HTTP answer"),
    ],
)
def test_an_invalid_page_gives_503_with_the_reason(answer, said):
    got = _with_relay(lambda _process, port: _send(port, GET), process=lambda: Process(answer))
    assert _status(got) == 503
    assert said.encode() in _body(got)
    assert _body(got).count(b"\n") == 1
    assert b"secret" not in got


def test_a_process_that_has_not_started_gives_503_and_then_its_page():
    async def scenario():
        engine_port, port = _free_port(), _free_port()
        relay = MetricsRelay(f"http://127.0.0.1:{engine_port}/metrics", clock=time.monotonic)
        await relay.start(port)
        before = await _send(port, GET)
        engine = await asyncio.start_server(Process().serve, "127.0.0.1", engine_port)
        after = await _send(port, GET)
        engine.close()
        await relay.close(timeout=5)
        return before, after

    before, after = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert (_status(before), _status(after)) == (503, 200)
    assert b"cannot read" in before


@pytest.mark.parametrize("kind", ["text/html", "text/plain\x0bx", "", "application/javascript"])
def test_a_page_of_another_content_type_is_served_as_plain_text(kind):
    answer = f"HTTP/1.0 200 OK\r\nSet-Cookie: a=b\r\nContent-Type: {kind}\r\n\r\n<script>".encode()
    got = _with_relay(lambda _process, port: _send(port, GET), process=lambda: Process(answer))
    assert b"Content-Type: text/plain; charset=utf-8\r\n" in got
    assert b"Set-Cookie" not in got


def test_clients_that_ask_at_the_same_time_share_readings():
    async def scenario(process, port):
        process.release.clear()
        first = asyncio.create_task(_send(port, GET))
        await process.began.wait()
        others = [asyncio.create_task(_send(port, GET)) for _ in range(20)]
        # Longer than the interval of two readings, so that only the first one delays the second.
        await asyncio.sleep(2 * READ_INTERVAL)
        process.release.set()
        answers = await asyncio.gather(first, *others)
        return answers, len(process.asked), process.most_at_a_time

    answers, readings, at_a_time = _with_relay(scenario)
    assert {_status(answer) for answer in answers} == {200}
    # The others asked after the first reading had begun: they get a newer page, one for all of them.
    assert (readings, at_a_time) == (2, 1)


def test_readings_keep_their_interval_for_any_number_of_requests():
    async def scenario():
        process = Process()
        engine = await asyncio.start_server(process.serve, "127.0.0.1", 0)
        process.port = engine.sockets[0].getsockname()[1]
        began = time.monotonic()
        reader = SharedReader(process.url, clock=time.monotonic, interval=0.1)
        for _ in range(5):
            await reader.read()
        engine.close()
        return time.monotonic() - began, len(process.asked)

    seconds, readings = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert readings == 5
    assert seconds > 0.39


def test_a_process_that_hangs_gives_503_after_the_time_limit():
    async def scenario():
        process = Process()
        process.release.clear()
        engine = await asyncio.start_server(process.serve, "127.0.0.1", 0)
        process.port = engine.sockets[0].getsockname()[1]
        answer = await SharedReader(process.url, clock=time.monotonic, timeout=0.05).read()
        process.release.set()
        engine.close()
        return answer

    answer = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert answer.status == 503
    assert b"no answer" in answer.body


def test_a_client_that_disconnects_does_not_cancel_the_reading_of_others():
    async def scenario(process, port):
        process.release.clear()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        await process.began.wait()
        stays = asyncio.create_task(_send(port, GET))
        writer.transport.abort()
        process.release.set()
        return await stays

    assert _body(_with_relay(scenario)) == PAGE


def _huge():
    return Process(b"HTTP/1.0 200 OK\r\n\r\n" + b"x 1\n" * (MAX_PAGE // 4))


def test_clients_that_never_read_do_not_block_other_addresses():
    async def scenario(_process, port):
        greedy = []
        for _ in range(12):
            _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.9", 0))
            writer.transport.pause_reading()
            writer.write(GET)
            greedy.append(writer)
        await asyncio.sleep(0.5)
        answers = await asyncio.gather(*(_send(port, GET) for _ in range(2)))
        for writer in greedy:
            writer.transport.abort()
        return answers

    answers = _with_relay(scenario, process=_huge, connections=4, head_timeout=60.0, write_timeout=60.0)
    assert [_status(answer) for answer in answers] == [200, 200]
    assert {len(_body(answer)) for answer in answers} == {MAX_PAGE}


def test_a_client_that_never_reads_is_disconnected():
    async def scenario(_process, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.transport.pause_reading()
        writer.write(GET)
        await asyncio.sleep(1.5)
        writer.transport.resume_reading()
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.transport.abort()

    assert len(_with_relay(scenario, process=_huge, write_timeout=0.2)) < MAX_PAGE


def test_clients_that_send_no_request_are_refused_after_the_time_limit():
    async def scenario(_process, port):
        return await asyncio.gather(*(_send(port, b"GET /metr") for _ in range(3)))

    assert {_status(answer) for answer in _with_relay(scenario, head_timeout=0.05)} == {408}


def test_an_endless_request_is_cut_off():
    answer = _with_relay(lambda _process, port: _send(port, b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 10_000))
    assert answer == b"" or _status(answer) == 431

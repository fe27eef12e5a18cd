"""Readiness from health answers, and the bounded HTTP client that reads them."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_worker.fetch import FetchedPage, PageError, PageTimeoutError, fetch
from epd_worker.health import (
    ERROR_PAUSE,
    UNANNOUNCED_INTERVAL,
    ProcessHealth,
    after_answer,
    after_error,
    after_slow,
    observe,
    watch,
)
from epd_worker.spec import ProcessSpec, Role

HEALTHY = after_answer(ProcessHealth(), status=200)


def test_only_a_good_answer_makes_healthy():
    assert not ProcessHealth().healthy
    assert HEALTHY.healthy
    assert not after_answer(ProcessHealth(), status=503).healthy
    assert not after_answer(HEALTHY, status=302).healthy


def test_two_slow_answers_are_tolerated_once_healthy_and_the_third_is_not():
    once = after_slow(HEALTHY, reason="slow")
    twice = after_slow(once, reason="slow")
    thrice = after_slow(twice, reason="slow")
    assert [state.healthy for state in (once, twice, thrice)] == [True, True, False]
    assert (thrice.reason, thrice.ever) == ("slow", True)
    assert not after_slow(thrice, reason="slow").healthy


def test_a_good_answer_resets_the_tolerance():
    state = after_answer(after_slow(after_slow(HEALTHY, reason="slow"), reason="slow"), status=200)
    assert after_slow(state, reason="slow").healthy


def test_a_slow_answer_while_starting_is_not_healthy():
    assert not after_slow(ProcessHealth(), reason="slow").healthy


def test_an_error_makes_unhealthy_at_once_and_does_not_change_that_it_was_healthy_before():
    state = after_error(HEALTHY, reason="refused")
    assert (state.healthy, state.ever, state.reason) == (False, True, "refused")


@pytest.mark.parametrize(
    ("answer", "healthy", "slow"),
    [
        (FetchedPage(200, b""), True, 0),
        (FetchedPage(503, b""), False, 0),
        (PageTimeoutError("slow"), True, 1),
        (PageError("refused"), False, 0),
    ],
)
def test_each_kind_of_answer_gives_a_health(answer, healthy, slow):
    async def fetch_page(_url):
        if isinstance(answer, Exception):
            raise answer
        return answer

    state = asyncio.run(observe(HEALTHY, url="http://x", fetch_page=fetch_page))
    assert (state.healthy, state.slow_in_a_row) == (healthy, slow)


async def _fetch_from(answer, *, timeout=20.0):  # noqa: ASYNC109 - passed on
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        return await fetch(f"http://127.0.0.1:{port}/health?x=1", timeout=timeout, limit=1000)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("answer", "page"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nhello", FetchedPage(200, b"hello")),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno", FetchedPage(503, b"no")),
        (b"HTTP/1.0 204 No Content\r\nContent-Length: 0\r\n\r\n", FetchedPage(204, b"")),
    ],
)
def test_pages_are_read(answer, page):
    assert asyncio.run(_fetch_from(answer)) == page


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "the connection was closed before an HTTP answer"),
        (b"SSH-2.0-x\r\n\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 abc\r\n\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "the page is incomplete"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", "larger than 1000 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000, "larger than 1000 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "transfer encoding"),
        (b"x" * 100_000, "the header of the answer is too long"),
    ],
)
def test_an_invalid_answer_is_an_error_with_a_reason(answer, reason):
    with pytest.raises(PageError, match=reason):
        asyncio.run(_fetch_from(answer))


def test_silence_is_slow_and_a_closed_port_is_an_error(engine):
    with pytest.raises(PageTimeoutError, match="no answer from"):
        asyncio.run(_fetch_from(None, timeout=0.05))
    with pytest.raises(PageError, match="no process listens"):
        asyncio.run(fetch(engine().health_url, timeout=20, limit=10))


MODELS = "http://127.0.0.1:8000/v1/models"


def listing(body):
    async def fetch_page(url):
        return FetchedPage(status=200, body=body if url == MODELS else b"")

    return fetch_page


@pytest.mark.parametrize("body", [b'{"data": []}', b"", b"[]", b"nonsense", b'{"data": null}', b"[" * 60_000])
def test_a_frontend_is_not_ready_before_it_lists_a_model(body):
    health = asyncio.run(observe(ProcessHealth(), url="http://h", models_url=MODELS, fetch_page=listing(body)))
    assert not health.healthy
    assert not health.ever
    assert health.reason == "its list of models is still empty"


def test_a_frontend_that_lists_a_model_is_ready_and_stays_so_when_the_model_is_lost():
    there, gone = listing(b'{"data": [{"id": "m"}]}'), listing(b'{"data": []}')
    health = asyncio.run(observe(ProcessHealth(), url="http://h", models_url=MODELS, fetch_page=there))
    assert health.healthy
    assert asyncio.run(observe(health, url="http://h", models_url=MODELS, fetch_page=gone)).healthy


class StopWatchingError(Exception):
    """Ends the loop of checks."""


ENGINE = ProcessSpec(name="m", role=Role.PD, command=(), health_url="http://health", metrics_url="http://metrics")
NOTHING_YET, ANNOUNCED = b"dynamo_uptime_seconds 3", b'dynamo_component_inflight_requests{dynamo_endpoint="generate"} 0'


class EngineProcess:
    """A Dynamo process in virtual time. It listens from second `listens` on, and is healthy from second `ready` on.

    `fails` is a time in which its health page answers 503 although it was ready. `announces`: whether its metrics page
    shows its endpoint from `ready` on.
    """

    def __init__(self, *, listens, ready, fails=(0, 0), announces=True):
        self.now = 0.0
        self.listens, self.ready, self.fails, self.announces = listens, ready, fails, announces
        self.error_lines = []
        self.seen_healthy = []

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds

    async def fetch(self, url):
        if self.now < self.listens:
            raise PageError("refused")
        if url == ENGINE.metrics_url:
            return FetchedPage(200, ANNOUNCED if self.announces and self.now >= self.ready else NOTHING_YET)
        assert url == ENGINE.health_url
        begin, end = self.fails
        if self.now >= self.ready and not begin <= self.now < end:
            return FetchedPage(200, b"")
        self.error_lines.append(self.now)
        return FetchedPage(503, b"")

    def watched_until(self, end):
        def on_check(check):
            if check.health.healthy:
                self.seen_healthy.append(self.now)
            if self.now >= end:
                raise StopWatchingError

        with pytest.raises(StopWatchingError):
            asyncio.run(watch(ENGINE, on_check, fetch_page=self.fetch, clock=self.clock, sleep=self.sleep))
        return self


@given(
    listens=st.floats(0, 60),
    loads=st.floats(0, 1800),
    serves=st.floats(0, 600),
    fails=st.floats(0, 600),
    announces=st.booleans(),
)
def test_at_most_one_error_answer_in_ten_seconds_is_caused_in_any_state(listens, loads, serves, fails, announces):
    ready = listens + loads
    failing = (ready + serves, ready + serves + fails)
    process = EngineProcess(listens=listens, ready=ready, fails=failing, announces=announces)
    lines = process.watched_until(failing[1] + 60).error_lines
    assert all(after - before >= ERROR_PAUSE - 1e-6 for before, after in itertools.pairwise(lines))


@pytest.mark.parametrize("listens", [0, 8])
@pytest.mark.parametrize(("ready", "at_most"), [(8.1, 0.9), (9, 1.0), (40, 1.0), (59, 1.0), (1799, 1.0)])
def test_readiness_is_noticed_within_a_second(listens, ready, at_most):
    process = EngineProcess(listens=listens, ready=ready).watched_until(ready + 30)
    assert process.seen_healthy[0] - ready <= at_most


def test_a_load_within_a_minute_causes_no_error_answer_and_one_of_30_minutes_one_in_a_minute():
    assert EngineProcess(listens=8, ready=59).watched_until(90).error_lines == []
    assert len(EngineProcess(listens=8, ready=1800).watched_until(1900).error_lines) <= 30


def test_a_process_whose_metrics_page_never_shows_its_endpoint_becomes_ready_later():
    process = EngineProcess(listens=8, ready=100, announces=False).watched_until(300)
    assert 100 <= process.seen_healthy[0] <= 100 + UNANNOUNCED_INTERVAL + ERROR_PAUSE


def test_the_end_of_an_error_is_noticed_within_ten_seconds():
    process = EngineProcess(listens=0, ready=1, fails=(100, 205)).watched_until(300)
    assert 205 <= next(second for second in process.seen_healthy if second > 200) <= 205 + ERROR_PAUSE


def test_a_healthy_process_is_asked_once_a_second_so_that_an_error_is_noticed_soon():
    seen = EngineProcess(listens=0, ready=0).watched_until(10).seen_healthy
    assert [round(after - before, 3) for before, after in itertools.pairwise(seen)] == [1.0] * (len(seen) - 1)

"""Readiness from health answers, and the bounded HTTP client that reads them."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from epd_worker.fetch import FetchedPage, PageError, PageTimeoutError, fetch
from epd_worker.health import MAX_PAUSE, ProcessHealth, after_answer, after_error, after_slow, observe, pause, watch

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
    with pytest.raises(PageError, match="Connect"):
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


class StartingProcess:
    """A process in virtual time: it refuses connections, then answers 503, and from `ready` on 200."""

    def __init__(self, *, listens, ready):
        self.now = 1000.0
        self.listens, self.ready = self.now + listens, self.now + ready
        self.answered = []

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds

    async def fetch(self, _url):
        if self.now < self.listens:
            raise PageError("refused")
        status = 200 if self.now >= self.ready else 503
        self.answered.append((self.now - 1000.0, status))
        return FetchedPage(status, b"")

    def seconds_until_noticed(self):
        """Check until the process is found ready; return how long after it became ready."""

        def on_check(check):
            if check.health.healthy:
                raise StopWatchingError

        with pytest.raises(StopWatchingError):
            asyncio.run(watch("http://x", on_check, fetch_page=self.fetch, clock=self.clock, sleep=self.sleep))
        return self.now - self.ready


@pytest.mark.parametrize(("ready", "at_most"), [(1, 0.25), (9, 2.25), (16, 4.0), (30, 7.5), (1800, 10.0)])
def test_readiness_is_noticed_soon_compared_with_the_duration_of_the_start(ready, at_most):
    assert StartingProcess(listens=ready, ready=ready).seconds_until_noticed() <= min(at_most, 1.0)
    assert StartingProcess(listens=min(8, ready), ready=ready).seconds_until_noticed() <= at_most


def test_a_load_of_30_minutes_causes_few_error_answers_which_dynamo_logs():
    process = StartingProcess(listens=8, ready=1800)
    process.seconds_until_noticed()
    errors = [second for second, status in process.answered if status == 503]
    assert len([second for second in errors if second < 40]) <= 8
    gaps = [after - before for before, after in itertools.pairwise(errors) if before >= 40]
    assert min(gaps) == MAX_PAUSE


def test_a_process_that_was_ready_and_answers_errors_is_asked_less_often_with_time():
    failing = after_answer(HEALTHY, status=503)
    assert [pause(failing, unhealthy_for=seconds) for seconds in (0, 8, 40, 4000)] == [1.0, 2.0, 10.0, 10.0]
    assert pause(after_error(HEALTHY, reason="refused"), unhealthy_for=4000) == 1.0
    assert pause(HEALTHY, unhealthy_for=0) == 1.0

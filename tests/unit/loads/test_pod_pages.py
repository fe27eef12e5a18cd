"""Reading pages of real servers, most of them hostile."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.fetch import PageOutcome, ignore_page, open_session
from epd_operator.loads.latency import Totals
from epd_operator.loads.measurements import Measurements
from epd_operator.loads.pod_pages import Limits, PodPageReader, open_pod_page_reader
from epd_operator.loads.targets import Target
from epd_operator.scaling.model import PodLoad
from epd_operator.telemetry.scaling_metrics import PageMetrics
from unit.loads.servers import answering, once_released, pouring, saying, serving, silent

PAGES = Path(__file__).parent / "pages"
PD = b"vllm:num_requests_running 2\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 0.5\n"
NOW = 42.0
PATIENT = Limits(page_seconds=30, round_seconds=60)
HASTY = Limits(page_seconds=0.3, round_seconds=60)
READ = PodLoad(name="p", ready=True, requests=3, kv_cache_percent=50, measured_at=NOW)
UNREAD = PodLoad(name="p", ready=True)
OK_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def target(url: str, *, pod: str = "p", stage: StageName = StageName.PD, ready: bool = True) -> Target:
    return Target(pod=pod, stage=stage, ready=ready, url=url)


@asynccontextmanager
async def scraping(limits: Limits = PATIENT) -> AsyncIterator[tuple[PodPageReader, Counter[PageOutcome]]]:
    outcomes: Counter[PageOutcome] = Counter()
    async with open_pod_page_reader(
        clock=lambda: NOW, observe=lambda _, outcome: outcomes.update([outcome]), limits=limits
    ) as scraper:
        yield scraper, outcomes


async def read(url: str, *, limits: Limits = PATIENT) -> tuple[PodLoad, list[PageOutcome]]:
    async with scraping(limits) as (scraper, outcomes):
        readings = await scraper.scrape([target(url)])
    assert set(readings.loads) == {"p"}
    return readings.loads["p"], list(outcomes.elements())


async def test_a_page_gives_a_load_with_the_time_of_the_question() -> None:
    async with serving(answering(PD)) as server:
        assert await read(server.url) == (READ, [PageOutcome.OK])


async def test_a_frontends_page_gives_its_latencies_too() -> None:
    page = (PAGES / "frontend_later.txt").read_bytes()
    async with serving(answering(page)) as server, scraping() as (scraper, _):
        readings = await scraper.scrape([target(server.url, stage=StageName.FRONTEND)])
    assert readings.loads["p"].requests == 0
    assert readings.latencies["p"].first_token == Totals(seconds=12.645330431999996, count=24)
    assert readings.latencies["p"].measured_at == NOW


async def test_a_pod_that_is_not_ready_is_not_asked() -> None:
    async with serving(answering(PD)) as server, scraping() as (scraper, outcomes):
        readings = await scraper.scrape([target(server.url, ready=False)])
    assert readings == Measurements(loads={"p": PodLoad(name="p", ready=False)})
    assert server.requests == []
    assert not outcomes


async def test_without_targets_there_is_nothing_to_read() -> None:
    async with scraping() as (scraper, _):
        assert await scraper.scrape([]) == Measurements()


async def test_a_closed_port_leaves_the_pod_without_values() -> None:
    async with serving(answering(PD)) as server:
        url = server.url
    assert await read(url) == (UNREAD, [PageOutcome.UNREACHABLE])


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        (answering(PD, status="500 Internal Server Error"), PageOutcome.STATUS),
        (answering(b"", status="204 No Content"), PageOutcome.STATUS),
        (answering(PD, headers="Content-Encoding: gzip\r\n"), PageOutcome.COMPRESSED),
        (answering(PD, headers="Content-Encoding: deflate, br\r\n"), PageOutcome.COMPRESSED),
        (answering(b"", length=10**12), PageOutcome.TOO_LARGE),
        (answering(PD, length=len(PD) + 1), PageOutcome.PROTOCOL),
        (saying(b""), PageOutcome.PROTOCOL),
        (saying(bytes(range(256)) * 8), PageOutcome.PROTOCOL),
        (saying(OK_HEAD + b"fffffffffffffffff\r\n"), PageOutcome.PROTOCOL),
        (saying(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000), PageOutcome.PROTOCOL),
        (answering(b"\xff\x00" * 1000), PageOutcome.UNREADABLE),
        (answering(b""), PageOutcome.UNREADABLE),
        (answering(PD.replace(b" 1\n", b" NaN\n")), PageOutcome.UNREADABLE),
        (answering(PD + PD), PageOutcome.UNREADABLE),
    ],
)
async def test_a_bad_answer_leaves_the_pod_without_values(behaviour, outcome) -> None:
    async with serving(behaviour) as server:
        assert await read(server.url) == (UNREAD, [outcome])


@pytest.mark.parametrize(
    "behaviour",
    [
        silent,
        pouring(OK_HEAD, b"", pause=0.01),
        pouring(OK_HEAD, b"1\r\n#\r\n", pause=0.01),
        pouring(b"HTTP/1.1 200 OK\r\n", b"", pause=0.01),
        pouring(b"", b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.01),
        # Its length is not limited, but nothing of it is kept.
        pouring(OK_HEAD + b"1;", b"extension" * 400),
    ],
    ids=["silence", "no body", "slow body", "half a head", "never the answer itself", "a chunk's extension"],
)
async def test_an_answer_that_does_not_end_is_cut_off_at_the_deadline(behaviour) -> None:
    async with serving(behaviour) as server:
        assert await read(server.url, limits=HASTY) == (UNREAD, [PageOutcome.TIMEOUT])


@pytest.mark.parametrize(
    ("head", "drop", "outcome"),
    [
        (OK_HEAD, b"1000\r\n" + b"x" * 4096 + b"\r\n", PageOutcome.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 4096, PageOutcome.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\n", b"X-Header: x\r\n" * 100, PageOutcome.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nX-Header: ", b"x" * 4096, PageOutcome.PROTOCOL),
        (b"HTTP/1.1 200 ", b"OK" * 4096, PageOutcome.PROTOCOL),
        (OK_HEAD + b"1\r\n#\r\n0\r\n", b"X-Trailer: x\r\n" * 100, PageOutcome.PROTOCOL),
    ],
    ids=["chunked", "until the end", "headers", "one header", "reason", "trailers"],
)
async def test_an_endless_answer_is_cut_off_at_once(head, drop, outcome) -> None:
    # The deadline is far away: only the size can have ended it.
    async with serving(pouring(head, drop)) as server:
        assert await read(server.url) == (UNREAD, [outcome])
        await asyncio.wait_for(server.hung_up.wait(), timeout=30)
    assert server.sent < 16 * 1024 * 1024


async def test_a_page_of_exactly_the_largest_size_is_read() -> None:
    limits = Limits(page_seconds=30, page_bytes=len(PD))
    async with serving(answering(PD)) as server:
        assert await read(server.url, limits=limits) == (READ, [PageOutcome.OK])
    async with serving(answering(PD + b"\n")) as server:
        assert await read(server.url, limits=limits) == (UNREAD, [PageOutcome.TOO_LARGE])


async def test_a_compressed_bomb_is_never_unpacked() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    async with serving(answering(bomb, headers="Content-Encoding: gzip\r\n")) as server:
        assert await read(server.url) == (UNREAD, [PageOutcome.COMPRESSED])
    # Without the header it is a page like any other: garbage.
    async with serving(answering(bomb)) as server:
        assert await read(server.url) == (UNREAD, [PageOutcome.UNREADABLE])


async def test_a_redirect_is_not_followed() -> None:
    async with serving(answering(PD)) as elsewhere:
        redirect = answering(b"", status="302 Found", headers=f"Location: {elsewhere.url}\r\n")
        async with serving(redirect) as server:
            assert await read(server.url) == (UNREAD, [PageOutcome.STATUS])
        assert elsewhere.requests == []


async def test_proxies_and_credentials_of_the_environment_are_not_used(monkeypatch, tmp_path) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login user password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with serving(answering(b"")) as proxy, serving(answering(PD)) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert await read(server.url) == (READ, [PageOutcome.OK])
        assert proxy.requests == []
    assert "authorization" not in server.requests[0].lower()


async def test_cookies_are_not_kept_and_compression_is_not_asked_for() -> None:
    async with serving(answering(PD, headers="Set-Cookie: a=b\r\n")) as server, scraping() as (scraper, _):
        for _ in range(2):
            assert (await scraper.scrape([target(server.url)])).loads["p"] == READ
    assert len(server.requests) == 2
    assert all("cookie" not in request.lower() for request in server.requests)
    assert all("accept-encoding: identity" in request.lower() for request in server.requests)


async def test_one_silent_pod_of_many_takes_nothing_from_the_others() -> None:
    limits = Limits(page_seconds=2, round_seconds=60)
    async with serving(silent) as mute, serving(answering(PD)) as server, scraping(limits) as (scraper, outcomes):
        targets = [target(mute.url, pod="mute"), *(target(server.url, pod=f"p{i}") for i in range(30))]
        readings = await scraper.scrape(targets)
    assert readings.loads.pop("mute") == PodLoad(name="mute", ready=True)
    assert {load.requests for load in readings.loads.values()} == {3}
    assert outcomes == {PageOutcome.OK: 30, PageOutcome.TIMEOUT: 1}


async def test_a_round_ends_at_its_deadline_with_what_was_read_by_then() -> None:
    limits = Limits(pages_per_round=2, page_seconds=60, round_seconds=2)
    async with serving(silent) as mute, serving(answering(PD)) as server, scraping(limits) as (scraper, outcomes):
        targets = [target(server.url, pod="a"), *(target(mute.url, pod=f"mute-{i}") for i in range(3))]
        readings = await scraper.scrape(targets)
    assert {pod: load.requests for pod, load in readings.loads.items() if load.requests is not None} == {"a": 3}
    assert outcomes == {PageOutcome.OK: 1, PageOutcome.ROUND_OVER: 3}


async def test_no_more_pages_than_allowed_are_read_at_a_time_and_so_many_are() -> None:
    limits = Limits(pages=6, pages_per_round=4, page_seconds=30, round_seconds=60)
    # The session would allow more: only turns that the scraper gives can hold them back, outside of any deadline.
    async with serving(once_released(PD)) as server, open_session(connections=100) as session:
        scraper = PodPageReader(session, clock=lambda: NOW, observe=ignore_page, limits=limits)
        rounds = [
            asyncio.create_task(scraper.scrape([target(server.url, pod=f"{d}-{i}") for i in range(12)]))
            for d in range(2)
        ]
        for _ in range(6):
            await server.arrived.acquire()
        # Whoever broke the limit would have asked by now, too; time can only make this test too kind.
        await asyncio.sleep(0.2)
        assert server.active == 6
        server.release.set()
        loads = [load for readings in await asyncio.gather(*rounds) for load in readings.loads.values()]
    assert server.most_active == 6
    assert [load.requests for load in loads] == [3] * 24


async def test_a_deployment_of_silent_pods_does_not_hold_up_another() -> None:
    limits = Limits(pages=4, pages_per_round=2, page_seconds=60, round_seconds=60)
    async with serving(silent) as mute, serving(answering(PD)) as server, scraping(limits) as (scraper, _):
        stuck = asyncio.create_task(scraper.scrape([target(mute.url, pod=f"mute-{i}") for i in range(50)]))
        for _ in range(2):
            await mute.arrived.acquire()
        readings = await scraper.scrape([target(server.url, pod=f"p{i}") for i in range(10)])
        assert {load.requests for load in readings.loads.values()} == {3}
        assert not stuck.done()
        before = asyncio.all_tasks()
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        # All of its pages ended with it.
        assert len(before - asyncio.all_tasks()) > 50


async def test_outcomes_are_counted_by_stage() -> None:
    registry = CollectorRegistry()
    metrics = PageMetrics(registry)
    async with (
        serving(answering(PD)) as server,
        open_pod_page_reader(clock=lambda: NOW, observe=metrics.observe_page, limits=PATIENT) as scraper,
    ):
        await scraper.scrape([target(server.url), target(server.url, pod="e", stage=StageName.ENCODER)])
    name = "epd_operator_scraped_pages_total"
    assert registry.get_sample_value(name, {"stage": "pd", "outcome": "ok"}) == 1
    assert registry.get_sample_value(name, {"stage": "encoder", "outcome": "unreadable"}) == 1

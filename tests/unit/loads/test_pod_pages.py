"""Reading metrics pages of HTTP servers, most of them hostile."""

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
from unit.loads.servers import answering, once_released, sending_endlessly, sending_raw, serving, silent

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
async def open_reader(limits: Limits = PATIENT) -> AsyncIterator[tuple[PodPageReader, Counter[PageOutcome]]]:
    outcomes: Counter[PageOutcome] = Counter()
    async with open_pod_page_reader(
        clock=lambda: NOW, observe=lambda _, outcome: outcomes.update([outcome]), limits=limits
    ) as reader:
        yield reader, outcomes


async def read(url: str, *, limits: Limits = PATIENT) -> tuple[PodLoad, list[PageOutcome]]:
    async with open_reader(limits) as (reader, outcomes):
        measurements = await reader.scrape([target(url)])
    assert set(measurements.loads) == {"p"}
    return measurements.loads["p"], list(outcomes.elements())


async def test_a_page_gives_a_load_with_the_time_of_the_request() -> None:
    async with serving(answering(PD)) as server:
        assert await read(server.url) == (READ, [PageOutcome.OK])


async def test_the_page_of_a_frontend_also_gives_its_latencies() -> None:
    page = (PAGES / "frontend_later.txt").read_bytes()
    async with serving(answering(page)) as server, open_reader() as (reader, _):
        measurements = await reader.scrape([target(server.url, stage=StageName.FRONTEND)])
    assert measurements.loads["p"].requests == 0
    assert measurements.latencies["p"].first_token == Totals(seconds=12.645330431999996, count=24)
    assert measurements.latencies["p"].measured_at == NOW


async def test_a_pod_that_is_not_ready_is_not_read() -> None:
    async with serving(answering(PD)) as server, open_reader() as (reader, outcomes):
        measurements = await reader.scrape([target(server.url, ready=False)])
    assert measurements == Measurements(loads={"p": PodLoad(name="p", ready=False)})
    assert server.requests == []
    assert not outcomes


async def test_without_targets_the_measurements_are_empty() -> None:
    async with open_reader() as (reader, _):
        assert await reader.scrape([]) == Measurements()


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
        (sending_raw(b""), PageOutcome.PROTOCOL),
        (sending_raw(bytes(range(256)) * 8), PageOutcome.PROTOCOL),
        (sending_raw(OK_HEAD + b"fffffffffffffffff\r\n"), PageOutcome.PROTOCOL),
        (sending_raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000), PageOutcome.PROTOCOL),
        (answering(b"\xff\x00" * 1000), PageOutcome.UNREADABLE),
        (answering(b""), PageOutcome.UNREADABLE),
        (answering(PD.replace(b" 1\n", b" NaN\n")), PageOutcome.UNREADABLE),
        (answering(PD + PD), PageOutcome.UNREADABLE),
    ],
)
async def test_an_invalid_response_leaves_the_pod_without_values(behaviour, outcome) -> None:
    async with serving(behaviour) as server:
        assert await read(server.url) == (UNREAD, [outcome])


@pytest.mark.parametrize(
    "behaviour",
    [
        silent,
        sending_endlessly(OK_HEAD, b"", pause=0.01),
        sending_endlessly(OK_HEAD, b"1\r\n#\r\n", pause=0.01),
        sending_endlessly(b"HTTP/1.1 200 OK\r\n", b"", pause=0.01),
        sending_endlessly(b"", b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.01),
        # Its length is not limited, but nothing of it is kept.
        sending_endlessly(OK_HEAD + b"1;", b"extension" * 400),
    ],
    ids=["silence", "no body", "slow body", "half a head", "never the answer itself", "a chunk's extension"],
)
async def test_a_response_that_does_not_end_is_aborted_at_the_deadline(behaviour) -> None:
    async with serving(behaviour) as server:
        assert await read(server.url, limits=HASTY) == (UNREAD, [PageOutcome.TIMEOUT])


@pytest.mark.parametrize(
    ("head", "part", "outcome"),
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
async def test_an_endless_response_is_aborted_at_the_size_limit(head, part, outcome) -> None:
    # The deadline is far away: only the size can have ended it.
    async with serving(sending_endlessly(head, part)) as server:
        assert await read(server.url) == (UNREAD, [outcome])
        await asyncio.wait_for(server.disconnected.wait(), timeout=30)
    assert server.sent < 16 * 1024 * 1024


async def test_a_page_of_exactly_the_maximum_size_is_read() -> None:
    limits = Limits(page_seconds=30, page_bytes=len(PD))
    async with serving(answering(PD)) as server:
        assert await read(server.url, limits=limits) == (READ, [PageOutcome.OK])
    async with serving(answering(PD + b"\n")) as server:
        assert await read(server.url, limits=limits) == (UNREAD, [PageOutcome.TOO_LARGE])


async def test_a_compressed_response_is_never_decompressed() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    async with serving(answering(bomb, headers="Content-Encoding: gzip\r\n")) as server:
        assert await read(server.url) == (UNREAD, [PageOutcome.COMPRESSED])
    # Without the header, the bytes are read as a page, and are not valid text.
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


async def test_cookies_are_not_kept_and_compression_is_not_requested() -> None:
    async with serving(answering(PD, headers="Set-Cookie: a=b\r\n")) as server, open_reader() as (reader, _):
        for _ in range(2):
            assert (await reader.scrape([target(server.url)])).loads["p"] == READ
    assert len(server.requests) == 2
    assert all("cookie" not in request.lower() for request in server.requests)
    assert all("accept-encoding: identity" in request.lower() for request in server.requests)


async def test_an_unresponsive_pod_does_not_affect_the_others() -> None:
    limits = Limits(page_seconds=2, round_seconds=60)
    async with (
        serving(silent) as silent_server,
        serving(answering(PD)) as server,
        open_reader(limits) as (reader, outcomes),
    ):
        targets = [target(silent_server.url, pod="mute"), *(target(server.url, pod=f"p{i}") for i in range(30))]
        measurements = await reader.scrape(targets)
    assert measurements.loads.pop("mute") == PodLoad(name="mute", ready=True)
    assert {load.requests for load in measurements.loads.values()} == {3}
    assert outcomes == {PageOutcome.OK: 30, PageOutcome.TIMEOUT: 1}


async def test_a_round_ends_at_its_deadline_and_keeps_the_pages_read_so_far() -> None:
    limits = Limits(pages_per_round=2, page_seconds=60, round_seconds=2)
    async with (
        serving(silent) as silent_server,
        serving(answering(PD)) as server,
        open_reader(limits) as (reader, outcomes),
    ):
        targets = [target(server.url, pod="a"), *(target(silent_server.url, pod=f"mute-{i}") for i in range(3))]
        measurements = await reader.scrape(targets)
    assert {pod: load.requests for pod, load in measurements.loads.items() if load.requests is not None} == {"a": 3}
    assert outcomes == {PageOutcome.OK: 1, PageOutcome.ROUND_OVER: 3}


async def test_pages_are_read_concurrently_up_to_the_limit() -> None:
    limits = Limits(pages=6, pages_per_round=4, page_seconds=30, round_seconds=60)
    # The session allows more connections, so only the limits of the reader apply.
    async with serving(once_released(PD)) as server, open_session(connections=100) as session:
        reader = PodPageReader(session, clock=lambda: NOW, observe=ignore_page, limits=limits)
        rounds = [
            asyncio.create_task(reader.scrape([target(server.url, pod=f"{d}-{i}") for i in range(12)]))
            for d in range(2)
        ]
        for _ in range(6):
            await server.arrived.acquire()
        # Requests above the limit would have arrived by now. A sleep that is too short can only hide an error.
        await asyncio.sleep(0.2)
        assert server.active == 6
        server.release.set()
        loads = [load for measurements in await asyncio.gather(*rounds) for load in measurements.loads.values()]
    assert server.most_active == 6
    assert [load.requests for load in loads] == [3] * 24


async def test_a_deployment_with_unresponsive_pods_does_not_delay_another() -> None:
    limits = Limits(pages=4, pages_per_round=2, page_seconds=60, round_seconds=60)
    async with serving(silent) as silent_server, serving(answering(PD)) as server, open_reader(limits) as (reader, _):
        stuck = asyncio.create_task(reader.scrape([target(silent_server.url, pod=f"mute-{i}") for i in range(50)]))
        for _ in range(2):
            await silent_server.arrived.acquire()
        measurements = await reader.scrape([target(server.url, pod=f"p{i}") for i in range(10)])
        assert {load.requests for load in measurements.loads.values()} == {3}
        assert not stuck.done()
        before = asyncio.all_tasks()
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        # Cancelling the round has ended the tasks of all its pages.
        assert len(before - asyncio.all_tasks()) > 50


async def test_outcomes_are_counted_by_stage() -> None:
    registry = CollectorRegistry()
    metrics = PageMetrics(registry)
    async with (
        serving(answering(PD)) as server,
        open_pod_page_reader(clock=lambda: NOW, observe=metrics.observe_page, limits=PATIENT) as reader,
    ):
        await reader.scrape([target(server.url), target(server.url, pod="e", stage=StageName.ENCODER)])
    name = "epd_operator_scraped_pages_total"
    assert registry.get_sample_value(name, {"stage": "pd", "outcome": "ok"}) == 1
    assert registry.get_sample_value(name, {"stage": "encoder", "outcome": "unreadable"}) == 1

"""Reading from a Prometheus server."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.fetch import PageOutcome, open_session
from epd_operator.loads.latency import Totals
from epd_operator.loads.measurements import Measurements
from epd_operator.loads.prometheus_answer import newest_pages
from epd_operator.loads.prometheus_query import PrometheusSource, QueryLimits
from epd_operator.loads.targets import Target
from epd_operator.scaling.model import PodLoad
from unit.loads.servers import answering, serving, silent

NOW = 100.0
UNIX_NOW = 1_800_000_000.0


def target(pod: str = "p", *, stage: StageName = StageName.PD, ready: bool = True) -> Target:
    return Target(pod=pod, stage=stage, ready=ready, url="http://unused.test")


def series(name: str, value: str, *, pod: str = "p", age: float = 0.0, **labels: str) -> dict[str, Any]:
    """A series with an older sample of another value before the last one."""
    last = UNIX_NOW - age
    return {"metric": {"__name__": name, "pod": pod, **labels}, "values": [[last - 15, "99"], [last, value]]}


def engine(running: str, waiting: str, *, pod: str = "p", age: float = 0.0, **labels: str) -> list[dict[str, Any]]:
    return [
        series("vllm:num_requests_running", running, pod=pod, age=age, **labels),
        series("vllm:num_requests_waiting", waiting, pod=pod, age=age, **labels),
    ]


def in_flight(value: str, component: str, **options: Any) -> dict[str, Any]:
    return series(
        "dynamo_component_inflight_requests",
        value,
        dynamo_component=component,
        dynamo_endpoint="generate",
        **options,
    )


def answer(*found: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(found)}}).encode()


def load(*found: Any, stage: StageName = StageName.PD) -> tuple[float | None, float | None]:
    """Requests, and when they were measured."""
    page = newest_pages(answer(*found), targets=[target(stage=stage)], now=NOW, unix_now=UNIX_NOW)["p"]
    return page.reading.requests, page.measured_at


def test_values_are_as_old_as_their_samples() -> None:
    assert load(*engine("2", "1", age=20)) == (3, 80.0)


def test_an_empty_answer_is_missing_and_not_zero() -> None:
    assert load() == (None, None)


def test_each_pod_gets_its_own_series_and_strangers_are_ignored() -> None:
    found = [*engine("2", "1"), *engine("5", "0", pod="q"), *engine("7", "7", pod="pxq")]
    pages = newest_pages(answer(*found), targets=[target(), target("q")], now=NOW, unix_now=UNIX_NOW)
    assert {pod: page.reading.requests for pod, page in pages.items()} == {"p": 3, "q": 5}


def test_the_series_of_a_restarted_process_are_not_added_up_with_its_successors() -> None:
    before = engine("8", "90", age=40, worker_id="old")
    assert load(*before, *engine("1", "0", age=10, worker_id="new")) == (1, 90.0)


def test_of_two_prometheus_servers_behind_one_address_the_newer_page_counts() -> None:
    assert load(*engine("4", "4", age=7, replica="a"), *engine("5", "5", age=3, replica="b")) == (10, 97.0)


def test_half_a_page_is_missing_even_where_older_samples_would_fill_it() -> None:
    running, waiting = engine("2", "1")
    waiting["values"].pop()
    assert load(running, waiting) == (None, None)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "", "x", None, {}])
def test_a_value_that_cannot_be_is_missing(value) -> None:
    assert load(*engine("2", value)) == (None, None)
    assert load(*engine("2", "1", engine="0"), *engine("0", value, engine="1")) == (None, None)


def test_a_sample_from_the_future_has_no_age_that_could_be_told() -> None:
    assert load(*engine("2", "1", age=-3600)) == (None, None)
    # Clocks are never quite equal.
    assert load(*engine("2", "1", age=-2)) == (3, NOW)


def test_of_a_group_only_the_pd_process_counts() -> None:
    pd = [*engine("2", "1", age=5), in_flight("6", "backend", age=5)]
    encoders = [in_flight("9", "encode", age=1), series("dynamo_work_handler_queue_depth", "0", age=1)]
    assert load(*pd, *encoders, stage=StageName.GROUP) == (6, 95.0)


def test_an_encoder_is_read_like_from_its_page() -> None:
    queued = series("dynamo_work_handler_queue_depth", "2", age=4)
    assert load(in_flight("9", "encode", age=4), queued, stage=StageName.ENCODER) == (11, 96.0)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        7,
        {},
        {"metric": None, "values": [[1, "1"]]},
        {"metric": {"pod": "p"}, "values": []},
        {"metric": {"pod": "p"}, "values": [[1]]},
        {"metric": {"pod": "p"}, "values": [["x", "1"]]},
        {"metric": {"pod": "p"}, "values": [["nan", "1"]]},
        {"metric": {"pod": "p"}, "histograms": [[1, {}]]},
    ],
)
def test_an_odd_series_takes_nothing_from_the_others(odd) -> None:
    assert load(odd, *engine("2", "1"), odd) == (3, NOW)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 8_000_000,
        b"[" + b"[]," * 1_000_000 + b"0]",
        b"\xff\xfe",
        b'{"status": "error", "errorType": "timeout"}',
        b'{"status": "success", "data": {"resultType": "vector", "result": []}}',
        b'{"status": "success", "data": {"resultType": "matrix", "result": {}}}',
    ],
)
def test_what_is_no_answer_is_refused(body) -> None:
    with pytest.raises(ValueError, match="not "):
        newest_pages(body, targets=[target()], now=NOW, unix_now=UNIX_NOW)


async def scrape(url: str, targets: list[Target], **options: Any) -> tuple[Measurements, Counter[PageOutcome]]:
    outcomes: Counter[PageOutcome] = Counter()
    async with open_session(connections=4) as session:
        source = PrometheusSource(
            session,
            url=url,
            clock=lambda: NOW,
            wall_clock=lambda: UNIX_NOW,
            observe=lambda _, outcome: outcomes.update([outcome]),
            limits=QueryLimits(**{"query_seconds": 30.0, "round_seconds": 60.0, **options}),
        )
        return await source.scrape(targets, namespace="shop"), outcomes


async def test_readings_are_those_that_the_scraper_would_give() -> None:
    body = answer(
        *engine("2", "1", age=20),
        series("vllm:kv_cache_usage_perc", "0.25", age=20),
        series("dynamo_frontend_active_requests", "4", pod="f", age=6),
        series("dynamo_frontend_time_to_first_token_seconds_sum", "5", pod="f", age=6),
        series("dynamo_frontend_time_to_first_token_seconds_count", "10", pod="f", age=6),
    )
    targets = [target(), target("f", stage=StageName.FRONTEND), target("silent"), target("starting", ready=False)]
    async with serving(answering(body)) as server:
        readings, outcomes = await scrape(server.url.removesuffix("metrics"), targets)
    assert readings.loads == {
        "p": PodLoad(name="p", ready=True, requests=3, kv_cache_percent=25, measured_at=80.0),
        "f": PodLoad(name="f", ready=True, requests=4, measured_at=94.0),
        "silent": PodLoad(name="silent", ready=True),
        "starting": PodLoad(name="starting", ready=False),
    }
    assert readings.latencies["f"].first_token == Totals(seconds=5, count=10)
    assert readings.latencies["f"].measured_at == 94.0
    assert outcomes == {PageOutcome.OK: 2, PageOutcome.UNREADABLE: 1}
    path = urlsplit(server.requests[0].split()[1])
    assert path.path == "/api/v1/query"
    (query,) = parse_qs(path.query)["query"]
    assert query.endswith('",namespace="shop",pod=~"p|f|silent"}[300s]')


async def test_many_pods_are_asked_for_in_several_queries() -> None:
    targets = [target(f"p{i}") for i in range(120)]
    found = [s for i in range(120) for s in engine(str(i), "0", pod=f"p{i}")]
    async with serving(answering(answer(*found))) as server:
        readings, _ = await scrape(server.url, targets)
    assert len(server.requests) == 3
    assert {pod: load.requests for pod, load in readings.loads.items()} == {f"p{i}": i for i in range(120)}


@pytest.mark.parametrize(
    ("behaviour", "options", "outcome"),
    [
        (answering(b"", status="503 Service Unavailable"), {}, PageOutcome.STATUS),
        (answering(b"nonsense"), {}, PageOutcome.UNREADABLE),
        (answering(answer(), headers="Content-Encoding: gzip\r\n"), {}, PageOutcome.COMPRESSED),
        (answering(answer()), {"answer_bytes": 10}, PageOutcome.TOO_LARGE),
        (silent, {"query_seconds": 0.3}, PageOutcome.TIMEOUT),
        (silent, {"round_seconds": 0.3}, PageOutcome.ROUND_OVER),
    ],
)
async def test_a_server_that_does_not_answer_well_leaves_all_pods_without_values(behaviour, options, outcome) -> None:
    async with serving(behaviour) as server:
        readings, outcomes = await scrape(server.url, [target(), target("q")], **options)
    assert {load.requests for load in readings.loads.values()} == {None}
    assert outcomes == {outcome: 2}

"""Queries to a Prometheus server, with a server on loopback."""

from __future__ import annotations

from collections import Counter
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.fetch import PageOutcome, open_session
from epd_operator.loads.latency import Totals
from epd_operator.loads.measurements import Measurements
from epd_operator.loads.prometheus_query import PrometheusSource, QueryLimits
from epd_operator.loads.targets import Target
from epd_operator.scaling.model import PodLoad
from unit.loads.prometheus_answers import NOW, UNIX_NOW, answer, engine, series, target
from unit.loads.servers import answering, serving, silent


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


async def test_prometheus_gives_the_same_measurements_as_the_pages_of_the_pods() -> None:
    body = answer(
        *engine("2", "1", age=20),
        series("vllm:kv_cache_usage_perc", "0.25", age=20),
        series("dynamo_frontend_active_requests", "4", pod="f", age=6),
        series("dynamo_frontend_time_to_first_token_seconds_sum", "5", pod="f", age=6),
        series("dynamo_frontend_time_to_first_token_seconds_count", "10", pod="f", age=6),
    )
    targets = [target(), target("f", stage=StageName.FRONTEND), target("silent"), target("starting", ready=False)]
    async with serving(answering(body)) as server:
        measurements, outcomes = await scrape(server.url.removesuffix("metrics"), targets)
    assert measurements.loads == {
        "p": PodLoad(name="p", ready=True, requests=3, kv_cache_percent=25, measured_at=80.0),
        "f": PodLoad(name="f", ready=True, requests=4, measured_at=94.0),
        "silent": PodLoad(name="silent", ready=True),
        "starting": PodLoad(name="starting", ready=False),
    }
    assert measurements.latencies["f"].first_token == Totals(seconds=5, count=10)
    assert measurements.latencies["f"].measured_at == 94.0
    assert outcomes == {PageOutcome.OK: 2, PageOutcome.UNREADABLE: 1}
    path = urlsplit(server.requests[0].split()[1])
    assert path.path == "/api/v1/query"
    (query,) = parse_qs(path.query)["query"]
    assert query.endswith('",namespace="shop",pod=~"p|f|silent"}[300s]')


async def test_many_pods_are_split_into_several_queries() -> None:
    targets = [target(f"p{i}") for i in range(120)]
    found = [s for i in range(120) for s in engine(str(i), "0", pod=f"p{i}")]
    async with serving(answering(answer(*found))) as server:
        measurements, _ = await scrape(server.url, targets)
    assert len(server.requests) == 3
    assert {pod: load.requests for pod, load in measurements.loads.items()} == {f"p{i}": i for i in range(120)}


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
async def test_a_failing_server_leaves_all_pods_without_values(behaviour, options, outcome) -> None:
    async with serving(behaviour) as server:
        measurements, outcomes = await scrape(server.url, [target(), target("q")], **options)
    assert {load.requests for load in measurements.loads.values()} == {None}
    assert outcomes == {outcome: 2}

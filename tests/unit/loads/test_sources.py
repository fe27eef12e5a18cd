"""Which source is read, with servers on loopback for Prometheus and a pod."""

from __future__ import annotations

import json

from epd_operator.api.v1alpha1.autoscaling import MetricsSource
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.measurements import Measurements
from epd_operator.loads.sources import open_sources
from epd_operator.loads.targets import Target
from epd_operator.scaling.model import PodLoad
from unit.loads.servers import Server, answering, serving

UNIX_NOW = 1_800_000_000.0
PAGE = b"vllm:num_requests_running 2\nvllm:num_requests_waiting 1\n"
SERIES = [
    {"metric": {"__name__": f"vllm:num_requests_{name}", "pod": "p"}, "values": [[UNIX_NOW - 20, value]]}
    for name, value in (("running", "7"), ("waiting", "0"))
]
ANSWER = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": SERIES}}).encode()


async def read(source: MetricsSource, *, configured: bool = True) -> tuple[Measurements, str | None, Server, Server]:
    async with serving(answering(PAGE)) as pod, serving(answering(ANSWER)) as prometheus:
        url = prometheus.url.removesuffix("/metrics") if configured else ""
        async with open_sources(prometheus_url=url, clock=lambda: 100.0, wall_clock=lambda: UNIX_NOW) as sources:
            target = Target(pod="p", stage=StageName.PD, ready=True, url=pod.url)
            readings = await sources.read(source, [target], namespace="shop")
            return readings, sources.obstacle(source), pod, prometheus


async def test_pods_are_read_themselves_even_where_there_is_a_prometheus() -> None:
    readings, obstacle, _, prometheus = await read(MetricsSource.PODS)
    assert readings.loads["p"] == PodLoad(name="p", ready=True, requests=3, measured_at=100.0)
    assert prometheus.requests == []
    assert obstacle is None


async def test_prometheus_is_asked_for_the_pods_of_the_namespace_and_no_pod_is_touched() -> None:
    readings, obstacle, pod, prometheus = await read(MetricsSource.PROMETHEUS)
    assert readings.loads["p"] == PodLoad(name="p", ready=True, requests=7, measured_at=80.0)
    assert "namespace%3D%22shop%22" in prometheus.requests[0]
    assert pod.requests == []
    assert obstacle is None


async def test_without_a_server_nothing_is_asked_anywhere_and_the_obstacle_names_the_ways_out() -> None:
    readings, obstacle, pod, prometheus = await read(MetricsSource.PROMETHEUS, configured=False)
    assert readings.loads["p"] == PodLoad(name="p", ready=True)
    assert pod.requests == prometheus.requests == []
    assert obstacle is not None
    for way in ("--prometheus-url", "chart value prometheusUrl", "metricsSource to Pods"):
        assert way in obstacle

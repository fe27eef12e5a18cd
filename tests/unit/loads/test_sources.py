"""Selection of the source, with servers on loopback for Prometheus and a pod."""

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
            measurements = await sources.read(source, [target], namespace="shop")
            return measurements, sources.obstacle(source), pod, prometheus


async def test_source_pods_reads_the_pods_even_if_a_prometheus_server_is_configured() -> None:
    measurements, obstacle, _, prometheus = await read(MetricsSource.PODS)
    assert measurements.loads["p"] == PodLoad(name="p", ready=True, requests=3, measured_at=100.0)
    assert prometheus.requests == []
    assert obstacle is None


async def test_source_prometheus_queries_the_pods_of_the_namespace_and_reads_no_pod() -> None:
    measurements, obstacle, pod, prometheus = await read(MetricsSource.PROMETHEUS)
    assert measurements.loads["p"] == PodLoad(name="p", ready=True, requests=7, measured_at=80.0)
    assert "namespace%3D%22shop%22" in prometheus.requests[0]
    assert pod.requests == []
    assert obstacle is None


async def test_without_a_configured_server_nothing_is_read_and_the_obstacle_names_the_fixes() -> None:
    measurements, obstacle, pod, prometheus = await read(MetricsSource.PROMETHEUS, configured=False)
    assert measurements.loads["p"] == PodLoad(name="p", ready=True)
    assert pod.requests == prometheus.requests == []
    assert obstacle is not None
    for fix in ("--prometheus-url", "chart value prometheusUrl", "metricsSource to Pods"):
        assert fix in obstacle

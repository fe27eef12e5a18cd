"""The operator reads the same measurements from a real Prometheus server as from the pods."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.fetch import open_session
from epd_operator.loads.latency import LatencyTotals
from epd_operator.loads.measurements import Measurements
from epd_operator.loads.pod_pages import open_pod_page_reader
from epd_operator.loads.prometheus_query import PrometheusSource
from epd_operator.loads.targets import Target
from epd_operator.objects.identity import Key
from epd_operator.plan.pods.process import HTTP_PORT, SYSTEM_PORT
from monitoring.prometheus import Prometheus
from monitoring.world import ENCODERS_PER_GROUP, OBJECTS, Fleet

each_object = pytest.mark.parametrize("key", OBJECTS, ids=lambda key: key.name)


def targets_of(fleet: Fleet, key: Key) -> list[Target]:
    """The pages that the operator reads for a deployment; for a group, the page of its PD process."""
    pods = [pod for pod in fleet.pods() if pod.namespace == key.namespace and pod.name.startswith(f"{key.name}-")]
    ports = {StageName.FRONTEND: HTTP_PORT, StageName.GROUP: SYSTEM_PORT + ENCODERS_PER_GROUP}
    return [
        Target(
            pod=pod.name,
            stage=pod.stage,
            ready=True,
            url=f"http://{fleet.addresses[pod.name]}:{ports.get(pod.stage, SYSTEM_PORT)}/metrics",
        )
        for pod in pods
        if pod.stage is not None
    ]


def without_times(measurements: Measurements) -> Any:
    """Measurements without their times."""
    loads = {pod: replace(load, measured_at=None) for pod, load in measurements.loads.items()}
    latencies: dict[str, LatencyTotals] = {
        pod: replace(totals, measured_at=0.0) for pod, totals in measurements.latencies.items()
    }
    return loads, latencies, dict(measurements.stages)


async def from_prometheus(prometheus: Prometheus, targets: list[Target], *, namespace: str) -> Measurements:
    async with open_session(connections=2) as session:
        source = PrometheusSource(session, url=prometheus.url, clock=time.monotonic, wall_clock=time.time)
        return await source.scrape(targets, namespace=namespace)


@each_object
async def test_measurements_match_the_pages_of_the_pods(prometheus: Prometheus, fleet: Fleet, key: Key) -> None:
    targets = targets_of(fleet, key)
    async with open_pod_page_reader(clock=time.monotonic) as scraper:
        expected = await scraper.scrape(targets)
    assert all(load.requests is not None for load in expected.loads.values())
    assert any(load.requests for load in expected.loads.values())
    found = await from_prometheus(prometheus, targets, namespace=key.namespace)
    assert without_times(found) == without_times(expected)


@each_object
async def test_measurements_are_about_as_old_as_the_last_scrape(prometheus: Prometheus, fleet: Fleet, key: Key) -> None:
    targets = targets_of(fleet, key)
    before = time.monotonic()
    found = await from_prometheus(prometheus, targets, namespace=key.namespace)
    ages = [before - load.measured_at for load in found.loads.values() if load.measured_at is not None]
    assert len(ages) == len(targets)
    # Prometheus scrapes every second; the window of a query is five minutes.
    assert max(ages) < 300


async def test_pods_of_another_namespace_are_never_read(prometheus: Prometheus, fleet: Fleet) -> None:
    targets = targets_of(fleet, Key("shop", "qwen"))
    found = await from_prometheus(prometheus, targets, namespace="lab")
    assert {load.requests for load in found.loads.values()} == {None}

"""Where an object's metrics come from: the pods' own pages, or a Prometheus server that has them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from epd_operator.api.v1alpha1.autoscaling import MetricsSource
from epd_operator.loads.fetch import PageObserver, ignore_page, open_session
from epd_operator.loads.measurements import Measurements
from epd_operator.loads.pod_pages import PodPageReader, open_pod_page_reader
from epd_operator.loads.prometheus_query import PrometheusSource
from epd_operator.loads.targets import Target

PROMETHEUS_CONNECTIONS = 16
"""Queries at a time, of all deployments together."""

NO_PROMETHEUS = (
    "scaling.metricsSource is Prometheus, but the operator knows no server: start it with --prometheus-url "
    "(chart value prometheusUrl), or set metricsSource to Pods"
)


class Sources:
    """Reads from the source that an object asks for."""

    def __init__(self, *, pods: PodPageReader, prometheus: PrometheusSource | None = None) -> None:
        self._pods = pods
        self._prometheus = prometheus

    def obstacle(self, source: MetricsSource) -> str | None:
        """Why nothing can be read from there, with the way out; None where it can."""
        return NO_PROMETHEUS if source is MetricsSource.PROMETHEUS and self._prometheus is None else None

    async def read(self, source: MetricsSource, targets: Sequence[Target], *, namespace: str) -> Measurements:
        """Values of one deployment's pods; never raises for a pod's or server's sake, those are left without values."""
        if source is MetricsSource.PODS:
            return await self._pods.scrape(targets)
        if self._prometheus is None:
            return Measurements.of(targets, pages={})
        return await self._prometheus.scrape(targets, namespace=namespace)


@asynccontextmanager
async def open_sources(
    *,
    prometheus_url: str,
    clock: Callable[[], float],
    wall_clock: Callable[[], float],
    observe: PageObserver = ignore_page,
) -> AsyncIterator[Sources]:
    """The sources of all deployments.

    Args:
        prometheus_url: address of the server; empty means there is none.
        clock: gives the seconds in which ages are counted.
        wall_clock: gives Unix time.
        observe: called for every page.
    """
    async with (
        open_pod_page_reader(clock=clock, observe=observe) as pods,
        open_session(connections=PROMETHEUS_CONNECTIONS) as s,
    ):
        server = PrometheusSource(s, url=prometheus_url, clock=clock, wall_clock=wall_clock, observe=observe)
        yield Sources(pods=pods, prometheus=server if prometheus_url else None)

"""The two sources of metrics: the metrics pages of the pods, or a Prometheus server."""

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
"""Maximum number of concurrent queries, of all deployments together."""

NO_PROMETHEUS = (
    "scaling.metricsSource is Prometheus, but the operator has no Prometheus server: start it with --prometheus-url "
    "(chart value prometheusUrl), or set metricsSource to Pods"
)


class Sources:
    """Reads metrics from the source that is set in an object."""

    def __init__(self, *, pods: PodPageReader, prometheus: PrometheusSource | None = None) -> None:
        self._pods = pods
        self._prometheus = prometheus

    def obstacle(self, source: MetricsSource) -> str | None:
        """Why this source cannot be used, and what to do; None if it can be used."""
        return NO_PROMETHEUS if source is MetricsSource.PROMETHEUS and self._prometheus is None else None

    async def read(self, source: MetricsSource, targets: Sequence[Target], *, namespace: str) -> Measurements:
        """Read the values of the pods of one deployment. After an error of a pod or server, its pods have no values."""
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
    """The sources for all deployments.

    Args:
        prometheus_url: URL of the Prometheus server; empty if there is none.
        clock: monotonic time in seconds, for the ages of measurements.
        wall_clock: Unix time in seconds.
        observe: called for every page.
    """
    async with (
        open_pod_page_reader(clock=clock, observe=observe) as pods,
        open_session(connections=PROMETHEUS_CONNECTIONS) as session,
    ):
        prometheus = PrometheusSource(session, url=prometheus_url, clock=clock, wall_clock=wall_clock, observe=observe)
        yield Sources(pods=pods, prometheus=prometheus if prometheus_url else None)

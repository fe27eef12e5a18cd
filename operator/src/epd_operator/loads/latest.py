"""Stores the latest measurements of every pod, with their times."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from epd_operator.loads.latency import LatencyTotals, MeanLatency, StageTimes, StageTotals, mean_latency, stage_times
from epd_operator.loads.measurements import Measurements
from epd_operator.scaling.model import PodLoad

MAX_DEPLOYMENTS = 10_000

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, kw_only=True)
class _Latest:
    loads: Mapping[str, PodLoad] = field(default_factory=dict)
    totals: Mapping[str, LatencyTotals] = field(default_factory=dict)
    latency: MeanLatency | None = None
    stage_totals: Mapping[str, StageTotals] = field(default_factory=dict)
    stage_times: StageTimes = field(default_factory=StageTimes)


class LatestMeasurements(Generic[K]):
    """The latest measurements of every pod, by deployment.

    It stores only pods of the last round of each deployment, and a limited number of deployments. Beyond the limit, it
    drops the deployment with the oldest round. Without the limit, a round that ends after its deployment was deleted
    would be stored permanently.
    """

    def __init__(self, *, max_deployments: int = MAX_DEPLOYMENTS) -> None:
        self._max_deployments = max_deployments
        self._latest: dict[K, _Latest] = {}

    def record(self, key: K, measurements: Measurements) -> None:
        """Store a round. Pods that are not in the round are dropped; values that could not be read are kept."""
        last = self._latest.pop(key, _Latest())
        loads = {
            pod: load if load.requests is not None else last.loads[pod]
            for pod, load in measurements.loads.items()
            if load.requests is not None or pod in last.loads
        }
        self._latest[key] = _Latest(
            loads=loads,
            totals=_only_pods({**last.totals, **measurements.latencies}, pods=measurements.loads),
            latency=mean_latency(last.totals, measurements.latencies),
            stage_totals=_only_pods({**last.stage_totals, **measurements.stages}, pods=measurements.loads),
            stage_times=stage_times(last.stage_totals, measurements.stages),
        )
        while len(self._latest) > self._max_deployments:
            # A dict is ordered by insertion, and every round inserts its deployment again at the end.
            del self._latest[next(iter(self._latest))]

    def loads(self, key: K, *, pods: Mapping[str, bool]) -> tuple[PodLoad, ...]:
        """Latest loads of these pods, in their order.

        ``measured_at`` is the time of the last successful measurement; a pod without one has no values.

        Args:
            key: key of the deployment.
            pods: readiness of each pod, by name.
        """
        known = self._latest.get(key, _Latest()).loads
        return tuple(
            replace(known[pod], ready=ready) if pod in known else PodLoad(name=pod, ready=ready)
            for pod, ready in pods.items()
        )

    def latency(self, key: K) -> MeanLatency | None:
        """Latencies between the last two rounds; None if no frontend was read in both rounds."""
        return self._latest.get(key, _Latest()).latency

    def stage_times(self, key: K) -> StageTimes:
        """Times in the stages between the last two rounds.

        If a pod could not be read in a round, its next mean covers a longer interval.
        """
        return self._latest.get(key, _Latest()).stage_times

    def forget(self, key: K) -> None:
        """Drop all measurements of a deployment, if there are any."""
        self._latest.pop(key, None)

    def __len__(self) -> int:
        return len(self._latest)


def _only_pods(totals: Mapping[str, V], *, pods: Container[str]) -> dict[str, V]:
    return {pod: value for pod, value in totals.items() if pod in pods}

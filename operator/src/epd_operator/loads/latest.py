"""Remembers what was last read of every pod, so that its age can be told."""

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
class _Signals:
    loads: Mapping[str, PodLoad] = field(default_factory=dict)
    totals: Mapping[str, LatencyTotals] = field(default_factory=dict)
    latency: MeanLatency | None = None
    stage_totals: Mapping[str, StageTotals] = field(default_factory=dict)
    stage_times: StageTimes = field(default_factory=StageTimes)


class LatestMeasurements(Generic[K]):
    """The latest load of every pod, by deployment.

    Holds no more than the pods of each deployment's last round, and no more than so many deployments: of more, the
    one whose last round is longest ago is forgotten. A round that ends after its deployment was forgotten would
    otherwise stay for ever.
    """

    def __init__(self, *, max_deployments: int = MAX_DEPLOYMENTS) -> None:
        self._max_deployments = max_deployments
        self._signals: dict[K, _Signals] = {}

    def record(self, key: K, readings: Measurements) -> None:
        """Take over a round. Pods that it did not ask for are gone; values that it could not read stay as they were."""
        last = self._signals.pop(key, _Signals())
        loads = {
            pod: load if load.requests is not None else last.loads[pod]
            for pod, load in readings.loads.items()
            if load.requests is not None or pod in last.loads
        }
        self._signals[key] = _Signals(
            loads=loads,
            totals=_kept({**last.totals, **readings.latencies}, pods=readings.loads),
            latency=mean_latency(last.totals, readings.latencies),
            stage_totals=_kept({**last.stage_totals, **readings.stages}, pods=readings.loads),
            stage_times=stage_times(last.stage_totals, readings.stages),
        )
        while len(self._signals) > self._max_deployments:
            # The order of a dict is that of insertion, and every round inserts anew.
            del self._signals[next(iter(self._signals))]

    def loads(self, key: K, *, pods: Mapping[str, bool]) -> tuple[PodLoad, ...]:
        """Loads of these pods, given with their present readiness, in their order.

        ``measured_at`` is the time of the last success; a pod that was never read has no values.
        """
        known = self._signals.get(key, _Signals()).loads
        return tuple(
            replace(known[pod], ready=ready) if pod in known else PodLoad(name=pod, ready=ready)
            for pod, ready in pods.items()
        )

    def latency(self, key: K) -> MeanLatency | None:
        """Latencies between the last two rounds; None where no frontend was read in both."""
        return self._signals.get(key, _Signals()).latency

    def stage_times(self, key: K) -> StageTimes:
        """Times in the stages between the last two rounds; of a pod that was not read, the next time spans the gap."""
        return self._signals.get(key, _Signals()).stage_times

    def forget(self, key: K) -> None:
        """Drop everything about a deployment; one that is unknown is fine."""
        self._signals.pop(key, None)

    def __len__(self) -> int:
        return len(self._signals)


def _kept(totals: Mapping[str, V], *, pods: Container[str]) -> dict[str, V]:
    return {pod: value for pod, value in totals.items() if pod in pods}

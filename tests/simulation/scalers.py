"""The autoscalers that are compared, on the same clusters."""

from __future__ import annotations

from collections.abc import Mapping

from epd_operator.api.v1alpha1.autoscaling import Autoscaling, Metric, MetricType, Scaling, ServiceLevel
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey
from epd_operator.scaling.decision import decide_all
from epd_operator.scaling.model import Decision, PodLoad, StageObservation
from epd_operator.scaling.service_level import Latency
from epd_operator.scaling.state import StageState
from simulation.cluster import Pod, Stage, StageModel
from simulation.engine import INTERVAL, Finished
from simulation.hpa import Hpa, HpaPod

LATENCY_WINDOW = 60.0


class HpaScaler:
    """A stock HPA for each stage, on requests per pod: the best configuration without this operator."""

    def __init__(self, models: Mapping[str, StageModel]) -> None:
        self._hpas = {name: Hpa(target=m.target, minimum=1, maximum=m.maximum) for name, m in models.items()}

    def __call__(self, stages: Mapping[str, Stage], now: float, waits: list[Finished]) -> dict[str, int]:  # noqa: ARG002
        """Replicas of each stage."""
        return {
            name: self._hpas[name]([_hpa_pod(pod, now) for pod in stage.staying()], stage.wanted, now)
            for name, stage in stages.items()
        }


def _hpa_pod(pod: Pod, now: float) -> HpaPod:
    fresh = pod.measured_at is not None and pod.measured_at >= now
    return HpaPod(pending=pod.runs_at > now, value=pod.measured if fresh else None)


class OperatorScaler:
    """This operator's decision, with its defaults unless others are given."""

    def __init__(
        self, models: Mapping[str, StageModel], *, scaling: Scaling | None = None, level: ServiceLevel | None = None
    ) -> None:
        self.decisions: list[Decision] = []
        self._scaling = scaling or Scaling(interval_seconds=int(INTERVAL))
        self._level = level
        self._states: dict[StageKey, StageState] = {}
        self._settings: dict[StageKey, Autoscaling | None] = {
            StageKey(StageName(name)): Autoscaling(
                max_replicas=m.maximum, metrics=[Metric(type=MetricType.REQUESTS, target_per_replica=m.target)]
            )
            for name, m in models.items()
        }

    def __call__(self, stages: Mapping[str, Stage], now: float, waits: list[Finished]) -> dict[str, int]:
        """Replicas of each stage."""
        self._states, decisions = decide_all(
            self._states,
            [_observed(name, stage, now) for name, stage in stages.items()],
            self._settings,
            self._scaling,
            latency=_latency(waits, now) if self._level else None,
            service_level=self._level,
        )
        self.decisions += decisions
        return {decision.stage.name.value: decision.desired for decision in decisions}


def _observed(name: str, stage: Stage, now: float) -> StageObservation:
    pods = tuple(
        PodLoad(name=pod.name, ready=pod.ready_at <= now, requests=pod.measured, measured_at=pod.measured_at)
        for pod in stage.staying()
    )
    return StageObservation(
        stage=StageKey(StageName(name)),
        at=now,
        replicas=stage.wanted,
        pods=pods,
        terminating=stage.draining(),
        gpus_per_replica=stage.model.gpus,
    )


def _latency(waits: list[Finished], now: float) -> Latency | None:
    recent: list[Finished] = []
    for finished in reversed(waits):
        if finished.at < now - LATENCY_WINDOW:
            break
        recent.append(finished)
    if not recent:
        return None
    count = len(recent)
    encoder_wait = sum(f.encoder_wait for f in recent) / count
    encode = sum(f.encode for f in recent) / count
    pd_wait = sum(f.pd_wait for f in recent) / count
    total = encoder_wait + encode + pd_wait
    return Latency(time_to_first_token=total, encode=encoder_wait + encode, pd_queue=pd_wait)

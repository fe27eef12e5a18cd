"""Builders of observed stages, and decisions for one stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epd_operator.api.v1alpha1.autoscaling import Autoscaling, Behavior, Metric, MetricType, ScaleDownRules, Scaling
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey
from epd_operator.scaling.model import Decision, PodLoad, StageObservation
from epd_operator.scaling.service_level import SloRisk
from epd_operator.scaling.stage import finalize, propose
from epd_operator.scaling.state import StageState

PD = StageKey(StageName.PD)
TARGET = 10
SCALING = Scaling(unschedulable_after_seconds=300)
AT_ONCE = Behavior(scale_down=ScaleDownRules(stabilization_window_seconds=0))
"""No window on the way down, for tests of the other rules."""


def settings(**changes: Any) -> Autoscaling:
    """Ten requests per replica, one to twenty replicas."""
    metrics = [Metric(type=MetricType.REQUESTS, target_per_replica=TARGET)]
    return Autoscaling.model_validate({"min_replicas": 1, "max_replicas": 20, "metrics": metrics, **changes})


def pods(loads: Sequence[float | None], *, at: float, age: float = 0.0, starting: int = 0) -> tuple[PodLoad, ...]:
    """Ready pods with these loads (None: no metrics), and pods that are starting."""
    ready = [PodLoad(name=f"p{n}", ready=True, requests=load, measured_at=at - age) for n, load in enumerate(loads)]
    return (*ready, *(PodLoad(name=f"s{n}", ready=False) for n in range(starting)))


def seen(
    loads: Sequence[float | None],
    *,
    at: float = 1000.0,
    age: float = 0.0,
    starting: int = 0,
    stage: StageKey = PD,
    **changes: Any,
) -> StageObservation:
    """A stage whose ready pods have these loads."""
    fields: dict[str, Any] = {
        "stage": stage,
        "at": at,
        "replicas": len(loads) + starting,
        "pods": pods(loads, at=at, age=age, starting=starting),
        **changes,
    }
    return StageObservation(**fields)


def even(total: float, replicas: int, **changes: Any) -> StageObservation:
    """A stage whose load is spread evenly."""
    return seen([total / replicas] * replicas, **changes)


def decide(
    state: StageState,
    observation: StageObservation,
    chosen: Autoscaling,
    scaling: Scaling,
    *,
    slo_risk: SloRisk | None = None,
) -> tuple[StageState, Decision]:
    """The decision for one stage without the rules that concern several stages."""
    return finalize(*propose(state, observation, settings=chosen, scaling=scaling, slo_risk=slo_risk))


def first(observation: StageObservation, chosen: Autoscaling | None = None, **changes: Any) -> Decision:
    """The first decision; nothing was seen before."""
    return decide(StageState(), observation, chosen or settings(behavior=AT_ONCE), SCALING, **changes)[1]

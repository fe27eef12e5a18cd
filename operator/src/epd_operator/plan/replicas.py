"""How many replicas each stage gets: from the spec, from the last decision, or from a scale object."""

from __future__ import annotations

from epd_operator.api.untyped import mapping
from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.autoscaling import Autoscaling, AutoscalingMode
from epd_operator.api.v1alpha1.epdstagescale import SCALE_KIND
from epd_operator.api.v1alpha1.stages import GpuStage, Stage, TensorParallelStage
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey
from epd_operator.plan.observation import ChildKey, KubernetesObject, Observation

DRAINED_FROM = "epd.dev/drained-from"
"""Annotation of a Deployment that a rollout has scaled down, or has not scaled up yet: its replicas without that."""
_MAX_DIGITS = 6


def settings_of(spec: EPDDeploymentSpec, stage: StageName) -> Stage | None:
    """The settings of a stage; None if the spec does not have the stage."""
    settings: Stage | None = getattr(spec, stage.value)
    return settings


def gpus_of(settings: Stage) -> int:
    """GPUs of each pod of a stage."""
    if isinstance(settings, TensorParallelStage):
        return settings.gpus_per_replica
    return 1 if isinstance(settings, GpuStage) else 0


def mode_of(spec: EPDDeploymentSpec, stage: StageName) -> AutoscalingMode | None:
    """The mode of a stage's autoscaling; None if its replicas are fixed or the spec does not have the stage."""
    settings = settings_of(spec, stage)
    return settings.autoscaling.mode if settings is not None and settings.autoscaling is not None else None


def is_internal(spec: EPDDeploymentSpec, stage: StageName) -> bool:
    """Whether the operator decides the replicas of a stage."""
    return mode_of(spec, stage) is AutoscalingMode.INTERNAL


def replicas_of(settings: Stage, *, stage: StageKey, serving: str, observation: Observation) -> int:
    """Replicas that the stage's Deployment should have.

    Without a decision or a scale object a stage keeps its replicas. So neither a restart of the operator nor a change
    of the mode scales a stage. In a revision that starts, a stage gets the replicas that it has in the one that serves.
    Decisions about a stage with fewer pods than it should have would make it smaller and smaller, so it is not scaled.
    """
    autoscaling = settings.autoscaling
    if autoscaling is None:
        return settings.replicas
    own, serves = observation.deployment_of(stage), observation.deployment_of(StageKey(stage.name, serving))
    for live in (own, serves):
        if is_reduced(live) and (before := replicas_before(live)) is not None:
            return _clamp(before, autoscaling)
    if autoscaling.mode is AutoscalingMode.EXTERNAL:
        scale = observation.children.get(ChildKey(SCALE_KIND, observation.identity.stage_name(stage.name)), {})
        wanted = scale.get("spec", {}).get("replicas")
    else:
        decision = observation.decisions.get(stage)
        wanted = decision.desired if decision is not None else None
    if wanted is None:
        # In a revision that starts, the stage follows that of the one that serves.
        wanted = replicas_before(serves or own)
    return _clamp(settings.replicas if wanted is None else int(wanted), autoscaling)


def replicas_before(live: KubernetesObject | None) -> int | None:
    """Replicas of a live Deployment, without what a rollout has taken from them; None if not known."""
    recorded = recorded_replicas(live)
    if recorded is not None or live is None:
        return recorded
    replicas = mapping(live.get("spec")).get("replicas")
    return replicas if replicas != 0 and isinstance(replicas, int) else None


def is_reduced(live: KubernetesObject | None) -> bool:
    """Whether a stage runs with fewer pods than it should have, because a rollout lacks GPUs."""
    return live is not None and bool(mapping(live.get("spec")).get("replicas")) and recorded_replicas(live) is not None


def recorded_replicas(live: KubernetesObject | None) -> int | None:
    """The replicas in the annotation of a live Deployment; None if it has none that is valid."""
    recorded = str(mapping(mapping((live or {}).get("metadata")).get("annotations")).get(DRAINED_FROM))
    return int(recorded) if recorded.isascii() and recorded.isdigit() and len(recorded) < _MAX_DIGITS else None


def _clamp(replicas: int, autoscaling: Autoscaling) -> int:
    return max(autoscaling.min_replicas, min(replicas, autoscaling.max_replicas))

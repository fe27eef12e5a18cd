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
"""Annotation of a Deployment that is scaled to 0 because its revision is removed: its replicas before."""
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
    """
    autoscaling = settings.autoscaling
    if autoscaling is None:
        return settings.replicas
    if autoscaling.mode is AutoscalingMode.EXTERNAL:
        scale = observation.children.get(ChildKey(SCALE_KIND, observation.identity.stage_name(stage.name)), {})
        wanted = scale.get("spec", {}).get("replicas")
    else:
        decision = observation.decisions.get(stage)
        wanted = decision.desired if decision is not None else None
    if wanted is None:
        # In a revision that starts, the stage follows that of the one that serves.
        serves = observation.deployment_of(StageKey(stage.name, serving))
        wanted = replicas_before(serves or observation.deployment_of(stage))
    return _clamp(settings.replicas if wanted is None else int(wanted), autoscaling)


def replicas_before(live: KubernetesObject | None) -> int | None:
    """Replicas of a live Deployment, or those before it was scaled to 0 with its revision; None if not known."""
    if live is None:
        return None
    replicas = mapping(live.get("spec")).get("replicas")
    if replicas != 0:
        return replicas if isinstance(replicas, int) else None
    recorded = str(mapping(mapping(live.get("metadata")).get("annotations")).get(DRAINED_FROM))
    return int(recorded) if recorded.isascii() and recorded.isdigit() and len(recorded) < _MAX_DIGITS else None


def _clamp(replicas: int, autoscaling: Autoscaling) -> int:
    return max(autoscaling.min_replicas, min(replicas, autoscaling.max_replicas))

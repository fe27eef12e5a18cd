"""How many replicas each stage gets: from the spec, from the last decision, or from a scale object."""

from __future__ import annotations

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.autoscaling import Autoscaling, AutoscalingMode
from epd_operator.api.v1alpha1.scale import SCALE_KIND
from epd_operator.api.v1alpha1.stages import GpuStage, Stage, TensorParallelStage
from epd_operator.plan.identity import StageName
from epd_operator.plan.observation import ChildKey, Observation


def settings_of(spec: EPDDeploymentSpec, stage: StageName) -> Stage | None:
    """The settings of a stage, or None where the spec lacks it."""
    settings: Stage | None = getattr(spec, stage.value)
    return settings


def gpus_of(settings: Stage) -> int:
    """GPUs of each pod of a stage."""
    if isinstance(settings, TensorParallelStage):
        return settings.gpus_per_replica
    return 1 if isinstance(settings, GpuStage) else 0


def is_external(spec: EPDDeploymentSpec, stage: StageName) -> bool:
    """Whether a scale object decides."""
    settings = settings_of(spec, stage)
    return settings is not None and _mode(settings.autoscaling) is AutoscalingMode.EXTERNAL


def is_internal(spec: EPDDeploymentSpec, stage: StageName) -> bool:
    """Whether the operator decides."""
    settings = settings_of(spec, stage)
    return settings is not None and _mode(settings.autoscaling) is AutoscalingMode.INTERNAL


def replicas_of(settings: Stage, *, stage: StageName, observation: Observation) -> int:
    """Replicas that the stage's Deployment should have.

    Without a decision or a scale object a stage keeps what it has: neither a restart of the operator nor a change of
    the mode may scale.
    """
    autoscaling = settings.autoscaling
    if autoscaling is None:
        return settings.replicas
    name = observation.identity.child_name(stage)
    if autoscaling.mode is AutoscalingMode.EXTERNAL:
        wanted = observation.children.get(ChildKey(SCALE_KIND, name), {}).get("spec", {}).get("replicas")
    else:
        decision = observation.decisions.get(stage)
        wanted = decision.desired if decision is not None else None
    if wanted is None:
        wanted = _present(observation, name)
    return _clamp(settings.replicas if wanted is None else int(wanted), autoscaling)


def _present(observation: Observation, name: str) -> int | None:
    live = observation.children.get(ChildKey("Deployment", name), {})
    replicas: int | None = live.get("spec", {}).get("replicas")
    return replicas


def _mode(autoscaling: Autoscaling | None) -> AutoscalingMode | None:
    return autoscaling.mode if autoscaling is not None else None


def _clamp(replicas: int, autoscaling: Autoscaling) -> int:
    return max(autoscaling.min_replicas, min(replicas, autoscaling.max_replicas))

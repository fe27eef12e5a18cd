"""The scale object of a stage that an external autoscaler scales: EPDStageScale.

The object is applied without ``spec.replicas``, which belongs to the autoscaler. Its first number is written once, by
another field manager, before the object is applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from epd_operator.api.v1alpha1.autoscaling import AutoscalingMode
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import Identity, StageKey
from epd_operator.objects.kinds import STAGE_SCALE
from epd_operator.plan.children.child_kind import ChildContext, ChildKind
from epd_operator.plan.observation import ChildKey
from epd_operator.plan.replicas import mode_of
from epd_operator.plan.stages.stage_plan import StagePlan
from epd_operator.plan.workloads.progress import progress_of


def _stage_scales(context: ChildContext) -> Iterator[dict[str, Any]]:
    """A scale object for each stage in mode External."""
    for stage in _external(context):
        yield stage_scale(identity=context.identity, stage=stage.name)


def stage_scale(*, identity: Identity, stage: StageName) -> dict[str, Any]:
    """The scale object of a stage, without replicas."""
    return {
        "apiVersion": STAGE_SCALE.api_version,
        "kind": STAGE_SCALE.kind,
        "metadata": identity.metadata(identity.stage_name(stage), labels=identity.labels(stage)),
    }


def scale_seeds(context: ChildContext) -> Iterator[dict[str, Any]]:
    """First contents of scale objects that do not exist yet.

    Without it the object would have 0 replicas, and autoscalers never scale such an object.
    """
    for stage in _external(context):
        scale = stage_scale(identity=context.identity, stage=stage.name)
        if ChildKey.of(scale) not in context.observation.children:
            metadata = {key: scale["metadata"][key] for key in ("name", "namespace", "ownerReferences")}
            yield {**scale, "metadata": metadata, "spec": {"replicas": stage.replicas}}


def scale_statuses(context: ChildContext) -> Iterator[dict[str, Any]]:
    """Statuses that differ from the live ones. A new object gets its status in the next reconcile."""
    observation = context.observation
    for stage in _external(context):
        scale = stage_scale(identity=context.identity, stage=stage.name)
        live = observation.children.get(ChildKey.of(scale))
        pods = progress_of(observation.deployment_of(stage.key)).pods
        status = scale_status(identity=context.identity, stage=stage.key, pods=pods)
        if live is not None and live.get("status") != status:
            metadata = {key: scale["metadata"][key] for key in ("name", "namespace")}
            yield {**scale, "metadata": metadata, "status": status}


def scale_status(*, identity: Identity, stage: StageKey, pods: int) -> dict[str, Any]:
    """The status that autoscalers read: the number of pods, and a label selector for them."""
    selector = ",".join(f"{name}={value}" for name, value in sorted(identity.revision_selector(stage).items()))
    return {"replicas": pods, "selector": selector}


def _external(context: ChildContext) -> Iterator[StagePlan]:
    """Stages of the revision that serves, if an external autoscaler scales them."""
    serving = context.rollout.serving
    spec = serving.spec
    return (s for s in serving.stages if spec and mode_of(spec, s.name) is AutoscalingMode.EXTERNAL)


STAGE_SCALES = ChildKind(
    kind=STAGE_SCALE,
    build=_stage_scales,
    purpose="the scale target of a stage for a HorizontalPodAutoscaler or KEDA",
    absence="no object can be reconciled: the CRD comes with the chart",
)

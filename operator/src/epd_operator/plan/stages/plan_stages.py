"""Plans the stages of a topology."""

from __future__ import annotations

from dataclasses import replace

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.stages import Group
from epd_operator.api.v1alpha1.topology import GPU_STAGES, StageName
from epd_operator.objects.identity import INITIAL_REVISION, Identity, StageKey
from epd_operator.plan.replicas import settings_of
from epd_operator.plan.stages.colocated import group_stage
from epd_operator.plan.stages.single_process import single_process_stage
from epd_operator.plan.stages.stage_plan import StagePlan

_PROGRESS_MARGIN_SECONDS = 600
"""Time for scheduling and image pulls, in addition to ``runtime.startupTimeoutSeconds``."""


def plan_stages(spec: EPDDeploymentSpec, *, identity: Identity, revision: str = INITIAL_REVISION) -> list[StagePlan]:
    """All stages of the topology, in the order in which they may start.

    Raises:
        ValueError: a stage or pool that the topology needs is missing. The API server refuses such objects, so the
            object is older than that rule.
    """
    rollout = spec.rollout
    deadline = rollout.progress_deadline_seconds or spec.runtime.startup_timeout_seconds + _PROGRESS_MARGIN_SECONDS
    names = (StageName.FRONTEND, *GPU_STAGES[spec.topology])
    planned = (_plan_stage(spec, identity=identity, stage=StageKey(name, revision)) for name in names)
    return [replace(stage, progress_deadline_seconds=deadline, paused=rollout.paused) for stage in planned]


def _plan_stage(spec: EPDDeploymentSpec, *, identity: Identity, stage: StageKey) -> StagePlan:
    settings = settings_of(spec, stage.name)
    if settings is None:
        raise ValueError(f"spec.{stage.name} is missing: topology {spec.topology} needs this stage")
    if isinstance(settings, Group):
        return group_stage(spec, identity=identity, stage=stage, group=settings)
    return single_process_stage(spec, identity=identity, stage=stage, settings=settings)

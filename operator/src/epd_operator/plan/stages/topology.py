"""Which stages a topology has."""

from __future__ import annotations

from typing import TypeVar

from epd_operator.api.v1alpha1 import EPDDeploymentSpec, Topology
from epd_operator.api.v1alpha1.stages import Group, Stage
from epd_operator.plan.identity import Identity, StageName
from epd_operator.plan.stages.group import group_stage
from epd_operator.plan.stages.model import StagePlan
from epd_operator.plan.stages.single import single_process_stage

T = TypeVar("T")


def plan_stages(spec: EPDDeploymentSpec, *, identity: Identity) -> list[StagePlan]:
    """All stages of the topology, in the order in which they may start.

    Raises:
        ValueError: a stage or pool that the topology needs is missing; the API server refuses such objects, so this
            is an object from before a rule.
    """
    parts: list[tuple[StageName, Stage]] = [(StageName.FRONTEND, spec.frontend)]
    if spec.topology is Topology.AGGREGATED:
        parts.append((StageName.WORKER, _required(spec.worker, "worker")))
    elif spec.topology is Topology.CO_LOCATED:
        parts.append((StageName.GROUP, _required(spec.group, "group")))
    else:
        parts.append((StageName.ENCODER, _required(spec.encoder, "encoder")))
        parts.append((StageName.PD, _required(spec.pd, "pd")))
    return [_plan_stage(spec, identity=identity, name=name, settings=settings) for name, settings in parts]


def _plan_stage(spec: EPDDeploymentSpec, *, identity: Identity, name: StageName, settings: Stage) -> StagePlan:
    if isinstance(settings, Group):
        return group_stage(spec, identity=identity, group=settings)
    return single_process_stage(spec, identity=identity, stage=name, settings=settings)


def _required(value: T | None, name: str) -> T:
    if value is None:
        raise ValueError(f"spec.{name}: needed by the topology but missing")
    return value

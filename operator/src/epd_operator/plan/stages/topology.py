"""Which stages a topology has."""

from __future__ import annotations

from typing import TypeVar

from epd_operator.api.v1alpha1 import EPDDeploymentSpec, Topology
from epd_operator.plan.identity import Identity, StageName
from epd_operator.plan.process import Role
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
    stages = [
        single_process_stage(
            spec, identity=identity, stage=StageName.FRONTEND, role=Role.FRONTEND, settings=spec.frontend
        )
    ]
    if spec.topology is Topology.AGGREGATED:
        worker = _required(spec.worker, "worker")
        stages.append(
            single_process_stage(spec, identity=identity, stage=StageName.WORKER, role=Role.WORKER, settings=worker)
        )
    elif spec.topology is Topology.CO_LOCATED:
        stages.append(group_stage(spec, identity=identity, group=_required(spec.group, "group")))
    else:
        encoder, pd = _required(spec.encoder, "encoder"), _required(spec.pd, "pd")
        stages.append(
            single_process_stage(spec, identity=identity, stage=StageName.ENCODER, role=Role.ENCODER, settings=encoder)
        )
        stages.append(single_process_stage(spec, identity=identity, stage=StageName.PD, role=Role.PD, settings=pd))
    return stages


def _required(value: T | None, name: str) -> T:
    if value is None:
        raise ValueError(f"spec.{name}: needed by the topology but missing")
    return value

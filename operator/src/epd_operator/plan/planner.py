"""The planner: from a spec and what was observed to children, deletions and status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epd_operator.api.v1alpha1.deployment import EPDDeploymentSpec
from epd_operator.plan.children.discovery import role_binding, service_account
from epd_operator.plan.children.endpoint import service
from epd_operator.plan.children.workload import deployment
from epd_operator.plan.difference import matches, with_plan_hash
from epd_operator.plan.observation import ChildKey, KubernetesObject, Observation
from epd_operator.plan.order import startable
from epd_operator.plan.stages.model import StagePlan
from epd_operator.plan.stages.topology import plan_stages


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What must be written so that the cluster matches the spec.

    Attributes:
        stages: all stages of the topology, including those that may not start yet.
        children: every child that should exist now.
        apply: children that are missing or differ, in order.
        delete: children of ours that should not exist.
    """

    stages: tuple[StagePlan, ...]
    children: tuple[dict[str, Any], ...]
    apply: tuple[dict[str, Any], ...]
    delete: tuple[ChildKey, ...]


def make_plan(spec: EPDDeploymentSpec, *, observation: Observation) -> Plan:
    """Plan one pass.

    Raises:
        ValueError: the spec cannot be planned; the message names the field.
    """
    identity = observation.identity
    stages = plan_stages(spec, identity=identity)
    wanted = [
        service_account(identity=identity),
        role_binding(identity=identity),
        service(spec, identity=identity),
        *(deployment(spec, identity=identity, stage=s) for s in startable(stages, observation=observation)),
    ]
    children = tuple(with_plan_hash(child) for child in wanted)
    keys = {ChildKey.of(child) for child in children}
    return Plan(
        stages=tuple(stages),
        children=children,
        apply=tuple(child for child in children if not _is_current(child, observation.children)),
        delete=tuple(sorted(key for key in observation.children if key not in keys)),
    )


def _is_current(child: dict[str, Any], live: Any) -> bool:
    found: KubernetesObject | None = live.get(ChildKey.of(child))
    return found is not None and matches(child, found)

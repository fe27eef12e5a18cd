"""What the installation decides for all objects alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from epd_operator.api.v1alpha1.autoscaling import AutoscalingMode
from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec, Management
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import Identity
from epd_operator.plan.children.disruption_budget import disruption_budget
from epd_operator.plan.children.network import network_policies, service
from epd_operator.plan.children.rbac import role_binding, service_account
from epd_operator.plan.children.stage_scale import scale_status, seed, stage_scale
from epd_operator.plan.drift import matches, must_recreate, with_plan_hash
from epd_operator.plan.observation import ChildKey, KubernetesObject, Observation
from epd_operator.plan.replicas import mode_of, replicas_of, settings_of
from epd_operator.plan.rollout.deletion_cost import deletion_costs
from epd_operator.plan.rollout.start_order import startable
from epd_operator.plan.stages.stage_plan import StagePlan
from epd_operator.plan.stages.topology import plan_stages
from epd_operator.plan.workloads.deployment import deployment

WORKER_ROLE = "epd-worker-discovery"
"""Comes with the chart. Bound by name, so that the operator needs no right of its own on what the role grants."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the planner.

    Attributes:
        worker_role: ClusterRole that is bound for the pods.
    """

    worker_role: str = WORKER_ROLE


DEFAULTS = Settings()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What must be written so that the cluster matches the spec.

    Attributes:
        stages: all stages of the topology, including those that may not start yet.
        children: every child that should exist now.
        apply: children that are missing or differ, in order.
        replace: those of them that cannot be changed: they are deleted and made anew.
        delete: children of ours that should not exist.
        seeds: first contents of scale objects that do not exist yet, to be applied before them.
        deletion_costs: pods of stages that shrink, with what says which of them should go, to be applied first.
        scale_statuses: statuses of scale objects that differ from what was observed.
    """

    stages: tuple[StagePlan, ...]
    children: tuple[dict[str, Any], ...]
    apply: tuple[dict[str, Any], ...]
    delete: tuple[ChildKey, ...]
    replace: frozenset[ChildKey] = frozenset()
    seeds: tuple[dict[str, Any], ...] = ()
    deletion_costs: tuple[dict[str, Any], ...] = ()
    scale_statuses: tuple[dict[str, Any], ...] = ()


def make_plan(spec: EPDDeploymentSpec, *, observation: Observation, settings: Settings = DEFAULTS) -> Plan:
    """Plan one pass.

    Args:
        spec: what the user wants.
        observation: what there is.
        settings: what the installation decides.

    Raises:
        ValueError: the spec cannot be planned; the message names the field.
    """
    identity = observation.identity
    stages = [_with_replicas(stage, spec, observation) for stage in plan_stages(spec, identity=identity)]
    scales = {
        s.name: stage_scale(identity=identity, stage=s.name)
        for s in stages
        if mode_of(spec, s.name) is AutoscalingMode.EXTERNAL
    }
    wanted = [
        service_account(identity=identity),
        role_binding(identity=identity, role=settings.worker_role),
        service(spec, identity=identity),
        *_protection(spec, identity=identity, stages=stages),
        *scales.values(),
        *(deployment(spec, identity=identity, stage=s) for s in startable(stages, observation=observation)),
    ]
    children = tuple(with_plan_hash(child) for child in wanted)
    keys = {ChildKey.of(child) for child in children}
    different = tuple(child for child in children if not _is_current(child, observation.children))
    return Plan(
        stages=tuple(stages),
        children=children,
        apply=different,
        replace=frozenset(ChildKey.of(child) for child in different if _is_in_the_way(child, observation.children)),
        delete=tuple(sorted(key for key in observation.children if key not in keys)),
        seeds=tuple(
            seed(scales[stage.name], replicas=stage.replicas)
            for stage in stages
            if stage.name in scales and ChildKey.of(scales[stage.name]) not in observation.children
        ),
        deletion_costs=tuple(pod for stage in stages for pod in deletion_costs(stage, observation=observation)),
        scale_statuses=tuple(_scale_statuses(scales, observation=observation)),
    )


def _protection(spec: EPDDeploymentSpec, *, identity: Identity, stages: list[StagePlan]) -> Iterator[dict[str, Any]]:
    """What protects pods; made before them."""
    if spec.network_policy.mode is Management.MANAGED:
        yield from network_policies(identity=identity, stages=stages)
    if spec.disruption_budget.mode is Management.MANAGED:
        for stage in stages:
            yield disruption_budget(identity=identity, stage=stage.name)


def _with_replicas(stage: StagePlan, spec: EPDDeploymentSpec, observation: Observation) -> StagePlan:
    settings = settings_of(spec, stage.name)
    if settings is None:
        return stage
    return replace(stage, replicas=replicas_of(settings, stage=stage.name, observation=observation))


def _scale_statuses(
    scales: Mapping[StageName, dict[str, Any]], *, observation: Observation
) -> Iterator[dict[str, Any]]:
    """Statuses that differ; an object that does not exist yet gets its status in the next pass."""
    for stage, scale in scales.items():
        live = observation.children.get(ChildKey.of(scale))
        deployed = observation.deployment_of(stage) or {}
        pods = int((deployed.get("status") or {}).get("replicas") or 0)
        status = scale_status(identity=observation.identity, stage=stage, pods=pods)
        if live is not None and live.get("status") != status:
            metadata = {key: scale["metadata"][key] for key in ("name", "namespace")}
            yield {**scale, "metadata": metadata, "status": status}


def _is_current(child: dict[str, Any], live: Any) -> bool:
    found: KubernetesObject | None = live.get(ChildKey.of(child))
    return found is not None and matches(child, found)


def _is_in_the_way(child: dict[str, Any], live: Any) -> bool:
    """Whether the live child differs in what nobody can change, and is not leaving yet."""
    found: KubernetesObject | None = live.get(ChildKey.of(child))
    return found is not None and must_recreate(child, found) and "deletionTimestamp" not in found["metadata"]

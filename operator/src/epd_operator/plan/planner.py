"""The planner: from a spec and an observation to children, deletions and statuses of scale objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec
from epd_operator.objects.kinds import DEPLOYMENT
from epd_operator.objects.pods import is_terminating
from epd_operator.plan.children.child_kind import ChildContext, Settings
from epd_operator.plan.children.registry import CHILDREN, child_kind
from epd_operator.plan.children.stage_scale import scale_seeds, scale_statuses
from epd_operator.plan.drift import (
    TEMPLATE,
    Difference,
    differences,
    has_new_template,
    must_recreate,
    plan_hash,
    values_hash,
    with_plan_hash,
)
from epd_operator.plan.observation import Admitted, ChildKey, KubernetesObject, Observation
from epd_operator.plan.rollout.deletion_cost import deletion_costs
from epd_operator.plan.rollout.replacement import evictions
from epd_operator.plan.rollout.revisions import Rollout, plan_rollout
from epd_operator.plan.stages.stage_plan import StagePlan

DEFAULTS = Settings()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What must be written to make the cluster match the spec.

    Attributes:
        rollout: the revisions, with all their stages, including those that must not start yet.
        children: every child that should exist now.
        apply: children that are missing or have drifted, in the order in which they are applied.
        recreate: those of them that have drifted in an immutable field: they are recreated.
        new_templates: those of them whose apply replaces their pods.
        delete: children that should not exist.
        seeds: first contents of scale objects that do not exist yet; applied before the scale objects.
        deletion_costs: pods of stages that are scaled down, with their deletion costs; applied before the children.
        scale_statuses: statuses of scale objects that differ from the observed ones.
        evictions: of workers that answer wrongly, at most one.
    """

    rollout: Rollout
    children: tuple[dict[str, Any], ...]
    apply: tuple[dict[str, Any], ...]
    delete: tuple[ChildKey, ...]
    recreate: frozenset[ChildKey] = frozenset()
    new_templates: frozenset[ChildKey] = frozenset()
    seeds: tuple[dict[str, Any], ...] = ()
    deletion_costs: tuple[dict[str, Any], ...] = ()
    scale_statuses: tuple[dict[str, Any], ...] = ()
    evictions: tuple[dict[str, Any], ...] = ()

    @property
    def stages(self) -> tuple[StagePlan, ...]:
        """The stages of all revisions."""
        return self.rollout.stages

    def without_unchanged(self, unchanged: Collection[ChildKey]) -> Plan:
        """The plan without the children whose spec was not changed when they were applied."""
        return replace(
            self,
            apply=tuple(child for child in self.apply if ChildKey.of(child) not in unchanged),
            new_templates=self.new_templates.difference(unchanged),
        )


def make_plan(spec: EPDDeploymentSpec, *, observation: Observation, settings: Settings = DEFAULTS) -> Plan:
    """Plan one reconcile.

    Args:
        spec: the spec of the EPDDeployment.
        observation: the state of the cluster.
        settings: settings of the installation.

    Raises:
        ValueError: the spec is not valid; the message names the field.
    """
    rollout = plan_rollout(spec, observation=observation)
    context = ChildContext(spec=spec, observation=observation, settings=settings, rollout=rollout)
    live = observation.children
    children = tuple(with_plan_hash(child) for kind in CHILDREN for child in kind.build(context))
    keys = {ChildKey.of(child) for child in children}
    drifted = tuple(child for child in children if not _is_current(child, observation))
    return Plan(
        rollout=rollout,
        children=children,
        apply=drifted,
        recreate=frozenset(ChildKey.of(child) for child in drifted if _must_be_recreated(child, live)),
        new_templates=frozenset(ChildKey.of(child) for child in drifted if _replaces_pods(child, observation)),
        delete=tuple(
            sorted(key for key in live if key not in keys and not _is_left(key, observation, rollout=rollout))
        ),
        seeds=tuple(scale_seeds(context)),
        deletion_costs=tuple(pod for stage in rollout.stages for pod in deletion_costs(stage, observation=observation)),
        scale_statuses=tuple(scale_statuses(context)),
        evictions=evictions(rollout, observation=observation),
    )


def _is_left(key: ChildKey, observation: Observation, *, rollout: Rollout) -> bool:
    """Whether the child is the Deployment of a revision whose spec is not known, and which still has its part."""
    stage = observation.identity.stage_of_workload(key.name) if key.kind == DEPLOYMENT.kind else None
    return stage is not None and any(stage in revision.kept for revision in rollout.revisions)


def _is_current(child: dict[str, Any], observation: Observation) -> bool:
    """Whether the live child exists, and differs from the plan at most in what admission has made of it."""
    key = ChildKey.of(child)
    live = observation.children.get(key)
    if live is None:
        return False
    found = list(differences(child, live, rules=child_kind(child["kind"]).drift))
    return not found or is_admitted(child, live, found=found, record=observation.admitted.get(key))


def is_admitted(
    child: Mapping[str, Any], live: KubernetesObject, *, found: Sequence[Difference], record: Admitted | None
) -> bool:
    """Whether the differences are those that admission makes, according to the record of an accepted apply."""
    if record is None or (record.uid, record.plan) != (live["metadata"].get("uid"), plan_hash(child)):
        return False
    if record.is_unstable:
        return {str(difference) for difference in found} <= set(record.fields)
    return record.values == values_hash(found)


def _replaces_pods(child: dict[str, Any], observation: Observation) -> bool:
    """Whether the live child gets another pod template: a new one, or the planned one again after an edit."""
    key = ChildKey.of(child)
    live = observation.children.get(key)
    if live is None or has_new_template(child, live):
        return True
    record = observation.admitted.get(key)
    admitted = record.fields if record is not None and record.uid == live["metadata"].get("uid") else ()
    found = differences(child, live, rules=child_kind(child["kind"]).drift)
    return any(d.path[: len(TEMPLATE)] == TEMPLATE and str(d) not in admitted for d in found)


def _must_be_recreated(child: dict[str, Any], live: Mapping[ChildKey, KubernetesObject]) -> bool:
    """Whether the live child has drifted in an immutable field, and is not terminating yet."""
    found = live.get(ChildKey.of(child))
    if found is None or is_terminating(found):
        return False
    return must_recreate(child, found, rules=child_kind(child["kind"]).drift)

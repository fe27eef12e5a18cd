"""The state of each stage, from its Deployment and pods."""

from __future__ import annotations

from dataclasses import dataclass, replace

from epd_operator.api.v1alpha1.status import StageStatus
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.text import one_line
from epd_operator.plan.observation import ChildKey, KubernetesObject, Observation
from epd_operator.plan.planner import Plan
from epd_operator.plan.stages.stage_plan import StagePlan
from epd_operator.plan.status.pods import MAX_MESSAGE, Problem, problem_of, worst
from epd_operator.plan.status.reasons import Reason


@dataclass(frozen=True, kw_only=True)
class StageProgress:
    """What a stage has and what keeps it from being ready.

    Attributes:
        ready: pods that are ready, whatever their template.
        updated: pods of the current template.
        outdated: pods of earlier templates.
        surplus: pods beyond the number asked for.
        problem: why the stage is not ready, or None if it is.
    """

    plan: StagePlan
    ready: int
    updated: int
    outdated: int
    surplus: int
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        """All pods are ready and of the current template, and none is too many."""
        return self.problem is None

    def to_status(self) -> StageStatus:
        """The stage as status shows it."""
        return StageStatus(
            name=self.plan.name,
            pool=self.plan.pool,
            desired=self.plan.replicas,
            ready=self.ready,
            updated=self.updated,
            reason=self.problem.reason if self.problem else None,
            message=one_line(self.problem.message, limit=MAX_MESSAGE) if self.problem else None,
        )


def stage_progress(plan: Plan, *, observation: Observation) -> list[StageProgress]:
    """States of all stages of the topology."""
    to_apply = {ChildKey.of(child) for child in plan.apply}
    startable = {ChildKey.of(child) for child in plan.children}
    states = []
    for stage in plan.stages:
        key = ChildKey("Deployment", observation.identity.child_name(stage.name))
        if key not in startable:
            problem = Problem(
                Reason.WAITING_FOR_ENCODER, f"{stage.name} pods are created when the first encoder is ready"
            )
            states.append(StageProgress(plan=stage, ready=0, updated=0, outdated=0, surplus=0, problem=problem))
            continue
        live = observation.children.get(key, {})
        states.append(_state(stage, live=live, outdated=key in to_apply, observation=observation))
    return states


def _state(stage: StagePlan, *, live: KubernetesObject, outdated: bool, observation: Observation) -> StageProgress:
    status = live.get("status", {})
    seen = status.get("observedGeneration", 0) >= live.get("metadata", {}).get("generation", 1)
    pods = int(status.get("replicas") or 0)
    updated = 0 if outdated or not seen else int(status.get("updatedReplicas") or 0)
    state = StageProgress(
        plan=stage,
        ready=int(status.get("readyReplicas") or 0),
        updated=updated,
        outdated=pods - updated,
        surplus=max(0, pods - stage.replicas),
    )
    problem = _refusal(stage.name, live) or _pod_problem(state, observation=observation)
    return replace(state, problem=problem)


def _refusal(stage: StageName, live: KubernetesObject) -> Problem | None:
    """Pods that the API server refuses to create: quota, pod security, admission."""
    for condition in live.get("status", {}).get("conditions", ()):
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return Problem(Reason.PODS_REFUSED, f"{stage} pods: {one_line(condition.get('message'))}")
    return None


def _pod_problem(state: StageProgress, *, observation: Observation) -> Problem | None:
    wanted = state.plan.replicas
    if state.ready >= wanted and state.updated >= wanted and not state.surplus:
        return None
    found = worst([p for pod in observation.pods_of(state.plan.name) if (p := problem_of(pod)) is not None])
    if found is not None and found.reason is not Reason.PODS_STARTING:
        return found
    if state.outdated:  # even where all current pods exist: they may not be ready yet, while the old ones are
        current = min(state.updated, wanted)
        return Problem(Reason.ROLLING_OUT, f"{current} of {wanted} pods have the current template")
    if state.ready < wanted:
        return found or Problem(Reason.PODS_STARTING, f"{wanted - state.ready} of {wanted} pods are starting")
    if state.updated < wanted:
        return Problem(Reason.ROLLING_OUT, "the change has not reached the pods yet")
    return Problem(Reason.SCALING_DOWN, f"{state.surplus} pods are being drained")

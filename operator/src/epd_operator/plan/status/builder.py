"""Status and conditions, computed again from the observation at every reconcile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec
from epd_operator.api.v1alpha1.status import UTC_TIME, Condition, ConditionStatus, EPDDeploymentStatus, StageStatus
from epd_operator.objects.identity import StageKey
from epd_operator.objects.text import one_line
from epd_operator.plan.children.network import endpoint_url
from epd_operator.plan.observation import ChildKey, KubernetesObject, Observation
from epd_operator.plan.planner import Plan
from epd_operator.plan.replicas import is_internal
from epd_operator.plan.rollout.steps import Phase
from epd_operator.plan.status.problem import MAX_MESSAGE, Problem
from epd_operator.plan.status.reasons import ConditionType, Reason
from epd_operator.plan.status.revisions import (
    revision_statuses,
    rollout_problem,
    starting_problems,
    summary_of,
    wrong_answers,
)
from epd_operator.plan.status.stages import StageProgress, scaling_status, stage_problems, stage_progress
from epd_operator.plan.workloads.progress import progress_of

_VARIABLE_TEXT = re.compile(r"\b[0-9a-f-]*[0-9][0-9a-f-]*\b")
"""Numbers and identifiers: they may differ between two refusals that have the same cause."""


def status_of(
    spec: EPDDeploymentSpec, *, plan: Plan, observation: Observation, now: str, nodes: Problem | None = None
) -> dict[str, Any]:
    """The status of an object whose spec is valid.

    Args:
        spec: the spec.
        plan: the plan of this reconcile.
        observation: the observation of this reconcile.
        now: the time, in RFC 3339, for conditions that change.
        nodes: why no node can run the pods of a stage; None if there is no reason, or if it is not known.
    """
    serving = plan.rollout.serving
    progress = stage_progress(plan, observation=observation)
    stages = progress[serving.name]
    status = EPDDeploymentStatus(
        observed_generation=observation.generation,
        topology=serving.spec.topology if serving.spec is not None else None,
        endpoint=endpoint_url(spec, identity=observation.identity),
        summary=summary_of(stages),
        stages=[_stage_status(stage, spec=serving.spec or spec, observation=observation, now=now) for stage in stages],
        revisions=revision_statuses(plan.rollout, progress=progress),
        conditions=[
            *_conditions(progress, plan=plan, observation=observation, now=now),
            *_nodes_condition(nodes, observation=observation, now=now),
        ],
    )
    return status.model_dump(by_alias=True, exclude_none=True, mode="json")


def _stage_status(stage: StageProgress, *, spec: EPDDeploymentSpec, observation: Observation, now: str) -> StageStatus:
    status = stage.to_status()
    if not is_internal(spec, stage.plan.name):
        return status
    return status.model_copy(update={"scaling": scaling_status(stage.plan.key, observation=observation, now=now)})


def status_of_invalid(message: str, *, observation: Observation, now: str) -> dict[str, Any]:
    """The status of an object whose spec is not valid. Its children do not change, so their status is kept."""
    problem = Problem(Reason.SPEC_INVALID, message)
    kept = {k: v for k, v in observation.status.items() if k not in ("conditions", "observedGeneration")}
    conditions = [
        _condition(ConditionType.READY, problem, is_true=False, observation=observation, now=now),
        _condition(ConditionType.RECONCILING, problem, is_true=False, observation=observation, now=now),
        _condition(ConditionType.STALLED, problem, is_true=True, observation=observation, now=now),
        *_crd_condition(observation, now=now),
    ]
    return {
        **kept,
        "observedGeneration": observation.generation,
        "conditions": [c.model_dump(by_alias=True, exclude_none=True, mode="json") for c in conditions],
    }


def is_unchanged(status: KubernetesObject, observed: KubernetesObject) -> bool:
    """Whether the status needs no write: conditions of other types, and the order of conditions, do not count."""
    return _own_part(status) == _own_part(observed)


def with_foreign_conditions(status: KubernetesObject, observed: KubernetesObject) -> dict[str, Any]:
    """The status with the conditions of other controllers that the observed status has."""
    foreign = [c for c in observed.get("conditions", ()) if c.get("type") not in list(ConditionType)]
    return {**status, "conditions": [*status.get("conditions", ()), *foreign]}


def _own_part(status: KubernetesObject) -> dict[str, Any]:
    """The status with the conditions of the operator by type, without conditions of other controllers."""
    conditions = {c.get("type"): c for c in status.get("conditions", ())}
    return {**status, "conditions": {str(kind): conditions.get(str(kind)) for kind in ConditionType}}


def _blocker(observation: Observation) -> Problem | None:
    """Why a child cannot be written until a person acts."""
    foreign = [(key, owner) for key, owner in sorted(observation.foreign_owners.items()) if not owner.terminating]
    if foreign:
        key, owner = foreign[0]
        return Problem(
            Reason.NAME_TAKEN,
            f"{key.kind} {key.name} already exists and is not controlled by this EPDDeployment (its controller: "
            f"{owner.description}): delete or rename that object, or give this EPDDeployment another name",
        )
    if observation.refused:
        key, answer = min(observation.refused.items())
        message = f"the API server refused a request for {key.kind} {key.name}: {one_line(answer)}"
        return Problem(Reason.CHILD_REFUSED, message)
    return None


def _waiting_for_removal(observation: Observation) -> Problem | None:
    terminating = sorted(key for key, owner in observation.foreign_owners.items() if owner.terminating)
    if not terminating:
        return None
    message = f"waiting for the removal of objects of an earlier EPDDeployment of this name: {_names(terminating)}"
    return Problem(Reason.WAITING_FOR_REMOVAL, message)


def _names(children: Iterable[ChildKey]) -> str:
    return ", ".join(f"{key.kind} {key.name}" for key in children)


def _conditions(
    progress: Mapping[str, list[StageProgress]], *, plan: Plan, observation: Observation, now: str
) -> list[Condition]:
    """All conditions; ``progress`` is that of the stages, by revision."""
    blocker, serving = _blocker(observation), plan.rollout.serving
    unready = blocker or _waiting_for_removal(observation) or _unready(progress, plan=plan, observation=observation)
    unavailable = _unavailable(progress[serving.name], kept=serving.kept, observation=observation)
    ready = Problem(Reason.ALL_STAGES_READY, "all stages are ready")
    available = Problem(Reason.REQUESTS_ANSWERED, "every stage has a ready pod")
    settled = Problem(Reason.SETTLED, "the cluster matches the spec")
    unblocked = Problem(Reason.SETTLED, "nothing blocks the operator")
    conditions = (
        (ConditionType.READY, unready or ready, unready is None),
        (ConditionType.AVAILABLE, unavailable or available, unavailable is None),
        (ConditionType.RECONCILING, unready or settled, unready is not None and blocker is None),
        (ConditionType.STALLED, blocker or unblocked, blocker is not None),
    )
    return [
        *(
            _condition(kind, why, is_true=is_true, observation=observation, now=now)
            for kind, why, is_true in conditions
        ),
        *_crd_condition(observation, now=now),
    ]


def _crd_condition(observation: Observation, *, now: str) -> list[Condition]:
    """The condition CRDOutdated; none if the CRDs are current, so that most objects do not have it."""
    if not observation.crd_problem:
        return []
    problem = Problem(Reason.FIELDS_MISSING, observation.crd_problem)
    return [_condition(ConditionType.CRD_OUTDATED, problem, is_true=True, observation=observation, now=now)]


def _nodes_condition(nodes: Problem | None, *, observation: Observation, now: str) -> list[Condition]:
    """The condition NodesUnsuitable; none if there is no problem."""
    if nodes is None:
        return []
    return [_condition(ConditionType.NODES_UNSUITABLE, nodes, is_true=True, observation=observation, now=now)]


def _unavailable(stages: list[StageProgress], *, kept: Iterable[StageKey], observation: Observation) -> Problem | None:
    """Why requests cannot be answered; None if they can.

    Args:
        stages: the stages of the revision that serves.
        kept: the same, if its spec is not known.
        observation: the observation of this reconcile.
    """
    unready = [stage.plan.name for stage in stages if stage.ready == 0]
    unready += [stage.name for stage in kept if progress_of(observation.deployment_of(stage)).ready == 0]
    if not unready:
        return None
    message = (
        f"stage {unready[0]} has no ready pod, so requests cannot be answered: the condition Ready shows the cause"
    )
    return Problem(Reason.NO_READY_PODS, message)


def _unready(progress: Mapping[str, list[StageProgress]], *, plan: Plan, observation: Observation) -> Problem | None:
    """Why the cluster does not match the spec yet; None if it does."""
    rollout = plan.rollout
    found = stage_problems(progress[rollout.serving.name])
    if rollout.target.name != rollout.serving.name:
        found += starting_problems(rollout, progress[rollout.target.name])
    first = _first_problem(found)
    waits = rollout_problem(rollout, observation=observation)
    decides = rollout.phase in (Phase.PAUSED, Phase.REMOVING_FIRST)
    if waits is not None and (first is None or not waits.reason.is_progress or decides):
        return waits
    wrong = wrong_answers(rollout, observation=observation)
    if wrong is not None and (first is None or first.reason.is_progress):
        return wrong
    if first is None and plan.delete:
        message = f"removing objects that the spec no longer needs: {_names(plan.delete)}"
        return Problem(Reason.SCALING_DOWN, message)
    return first


def _first_problem(found: list[Problem]) -> Problem | None:
    """The problem that the conditions show.

    A problem that needs action comes first. Among stages in progress the most urgent reason is shown; if equal, that of
    the last stage, because frontends (the first) wait for the others.
    """
    urgent = next((problem for problem in found if not problem.reason.is_progress), None)
    return urgent or min(reversed(found), key=lambda problem: problem.reason.traits.rank, default=None)


def _condition(
    kind: ConditionType, problem: Problem, *, is_true: bool, observation: Observation, now: str
) -> Condition:
    """A condition. Its transition time changes only when its status changes."""
    status = ConditionStatus.TRUE if is_true else ConditionStatus.FALSE
    before = _previous_condition(observation.status, kind)
    since = str(before.get("lastTransitionTime")) if before.get("status") == status else now
    return Condition(
        type=kind,
        status=status,
        observed_generation=observation.generation,
        last_transition_time=since if re.match(UTC_TIME, since) else now,
        reason=problem.reason,
        message=_message(problem, before=before, generation=observation.generation),
    )


def _message(problem: Problem, *, before: KubernetesObject, generation: int) -> str:
    """The message of a condition. If two refusals in a row differ only in numbers, the earlier message is kept.

    Otherwise each write of the status would cause the next one.
    """
    message = one_line(problem.message, limit=MAX_MESSAGE)
    previous = str(before.get("message"))
    both_refused = problem.reason == before.get("reason") == Reason.CHILD_REFUSED
    if both_refused and before.get("observedGeneration") == generation and _cause(message) == _cause(previous):
        return previous
    return message


def _cause(message: str) -> str:
    """The message without numbers and identifiers."""
    return _VARIABLE_TEXT.sub("#", message)


def _previous_condition(status: KubernetesObject, kind: ConditionType) -> KubernetesObject:
    return next((c for c in status.get("conditions", ()) if c.get("type") == kind), {})

"""Status and conditions, rebuilt from observation at every pass."""

from __future__ import annotations

import re
from typing import Any

from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec
from epd_operator.api.v1alpha1.status import UTC_TIME, Condition, ConditionStatus, EPDDeploymentStatus, StageStatus
from epd_operator.objects.text import one_line
from epd_operator.plan.children.network import endpoint_url
from epd_operator.plan.observation import KubernetesObject, Observation
from epd_operator.plan.planner import Plan
from epd_operator.plan.replicas import is_internal
from epd_operator.plan.status.pods import MAX_MESSAGE, Problem
from epd_operator.plan.status.reasons import ConditionType, Reason
from epd_operator.plan.status.stages import StageProgress, scaling_status, stage_progress

_CHANGEABLE = re.compile(r"\b[0-9a-f-]*[0-9][0-9a-f-]*\b")
"""Numbers and identifiers, which differ between two refusals of the same thing."""


def status_of(spec: EPDDeploymentSpec, *, plan: Plan, observation: Observation, now: str) -> dict[str, Any]:
    """Status of an object whose spec could be planned.

    Args:
        spec: the spec.
        plan: this pass's plan.
        observation: what this pass saw.
        now: the time, in RFC 3339, for conditions that change.
    """
    states = stage_progress(plan, observation=observation)
    stalled = _conflict(observation)
    status = EPDDeploymentStatus(
        observed_generation=observation.generation,
        topology=spec.topology,
        endpoint=endpoint_url(spec, identity=observation.identity),
        summary=", ".join(f"{s.plan.name} {s.ready}/{s.plan.replicas}" for s in states),
        stages=[_stage_status(state, spec=spec, observation=observation, now=now) for state in states],
        conditions=_conditions(states, stalled=stalled, leftovers=len(plan.delete), observation=observation, now=now),
    )
    return status.model_dump(by_alias=True, exclude_none=True, mode="json")


def _stage_status(state: StageProgress, *, spec: EPDDeploymentSpec, observation: Observation, now: str) -> StageStatus:
    status = state.to_status()
    if not is_internal(spec, state.plan.name):
        return status
    return status.model_copy(update={"scaling": scaling_status(state.plan.key, observation=observation, now=now)})


def status_of_invalid(message: str, *, observation: Observation, now: str) -> dict[str, Any]:
    """Status of an object whose spec cannot be planned; what runs is left alone and stays in status."""
    problem = Problem(Reason.SPEC_INVALID, message)
    kept = {k: v for k, v in observation.status.items() if k not in ("conditions", "observedGeneration")}
    conditions = [
        _condition(ConditionType.READY, problem, holds=False, observation=observation, now=now),
        _condition(ConditionType.RECONCILING, problem, holds=False, observation=observation, now=now),
        _condition(ConditionType.STALLED, problem, holds=True, observation=observation, now=now),
    ]
    return {
        **kept,
        "observedGeneration": observation.generation,
        "conditions": [c.model_dump(by_alias=True, exclude_none=True, mode="json") for c in conditions],
    }


def is_unchanged(status: KubernetesObject, observed: KubernetesObject) -> bool:
    """Whether nothing of ours differs: conditions of other types belong to others, and their order means nothing."""

    def ours(one: KubernetesObject) -> dict[str, Any]:
        conditions = {c.get("type"): c for c in one.get("conditions", ())}
        return {**one, "conditions": {str(kind): conditions.get(str(kind)) for kind in ConditionType}}

    return ours(status) == ours(observed)


def _conflict(observation: Observation) -> Problem | None:
    """What keeps children from being written and does not heal by itself."""
    strangers = [(key, holder) for key, holder in sorted(observation.taken.items()) if not holder.leaving]
    if strangers:
        key, holder = strangers[0]
        return Problem(
            Reason.NAME_TAKEN,
            f"{key.kind} {key.name} belongs to {holder.description}: delete or rename it, or give this EPDDeployment "
            "another name",
        )
    if observation.refused:
        key, answer = min(observation.refused.items())
        return Problem(Reason.CHILD_REFUSED, f"{key.kind} {key.name} was refused: {one_line(answer)}")
    return None


def _waiting_for_removal(observation: Observation) -> Problem | None:
    leaving = sorted(key for key, holder in observation.taken.items() if holder.leaving)
    if not leaving:
        return None
    names = ", ".join(f"{key.kind} {key.name}" for key in leaving)
    return Problem(Reason.WAITING_FOR_REMOVAL, f"{names} of an earlier object of this name must be removed first")


def _conditions(
    states: list[StageProgress], *, stalled: Problem | None, leftovers: int, observation: Observation, now: str
) -> list[Condition]:
    unready = stalled or _waiting_for_removal(observation) or _first_problem(states)
    if unready is None and leftovers:
        unready = Problem(Reason.SCALING_DOWN, f"{leftovers} objects that are no longer wanted are being removed")
    silent = next((s for s in states if s.ready == 0), None)
    available = (
        Problem(Reason.REQUESTS_ANSWERED, "every stage has a ready pod")
        if silent is None
        else Problem(Reason.NO_READY_PODS, f"stage {silent.plan.name} has no ready pod")
    )
    settled = Problem(Reason.SETTLED, "nothing is left to do")
    unhindered = Problem(Reason.SETTLED, "nothing is in the way that does not heal by itself")

    def condition(kind: ConditionType, problem: Problem, *, holds: bool) -> Condition:
        return _condition(kind, problem, holds=holds, observation=observation, now=now)

    return [
        condition(
            ConditionType.READY,
            unready or Problem(Reason.ALL_STAGES_READY, "all stages are ready"),
            holds=unready is None,
        ),
        condition(ConditionType.AVAILABLE, available, holds=silent is None),
        condition(ConditionType.RECONCILING, unready or settled, holds=unready is not None and stalled is None),
        condition(ConditionType.STALLED, stalled or unhindered, holds=stalled is not None),
    ]


def _first_problem(states: list[StageProgress]) -> Problem | None:
    """The problem that a person should read first.

    Of stages that only take their time it is the last one's, because frontends, which come first, wait for all others.
    """
    found = [
        Problem(s.problem.reason, f"{s.plan.name} {s.ready}/{s.plan.replicas}: {s.problem.message}")
        for s in states
        if s.problem is not None
    ]
    urgent = next((problem for problem in found if not problem.reason.is_progress), None)
    return urgent or min(reversed(found), key=lambda problem: problem.reason.traits.urgency, default=None)


def _condition(kind: ConditionType, problem: Problem, *, holds: bool, observation: Observation, now: str) -> Condition:
    """A condition whose transition time moves only when its status does."""
    status = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    before = _previous(observation.status, kind)
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
    """The problem as text. A refusal that differs from the last one only in numbers keeps the old text.

    Otherwise every status would cause the next one.
    """
    message = one_line(problem.message, limit=MAX_MESSAGE)
    known = str(before.get("message"))
    again = (before.get("reason"), before.get("observedGeneration")) == (Reason.CHILD_REFUSED, generation)
    if again and problem.reason is Reason.CHILD_REFUSED and _cause(message) == _cause(known):
        return known
    return message


def _cause(message: str) -> str:
    return _CHANGEABLE.sub("#", message)


def _previous(status: KubernetesObject, kind: ConditionType) -> KubernetesObject:
    return next((c for c in status.get("conditions", ()) if c.get("type") == kind), {})

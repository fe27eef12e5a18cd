"""The status of each stage: its progress, from its Deployment and pods, and its last scaling decision."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from epd_operator.api.v1alpha1.status import ScalingStatus, StageStatus
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey
from epd_operator.objects.kinds import DEPLOYMENT
from epd_operator.objects.text import one_line
from epd_operator.plan.observation import ChildKey, KubernetesObject, Observation
from epd_operator.plan.planner import Plan
from epd_operator.plan.rollout.limits import blocked_pod, limits
from epd_operator.plan.stages.stage_plan import StagePlan
from epd_operator.plan.status.pods import problem_of
from epd_operator.plan.status.problem import MAX_MESSAGE, Problem, most_urgent
from epd_operator.plan.status.reasons import Reason
from epd_operator.plan.workloads.progress import Progress, Refusal, progress_of
from epd_operator.scaling.model import Decision

_DECIMAL = re.compile(r"[0-9]+(\.[0-9]{1,2})?")


@dataclass(frozen=True, kw_only=True)
class StageProgress:
    """The pods of a stage, and why it is not ready.

    Attributes:
        ready: ready pods of all templates.
        updated: pods of the current template.
        outdated: pods of earlier templates.
        surplus: pods beyond the planned number.
        problem: why the stage is not ready, or None if it is.
    """

    plan: StagePlan
    ready: int = 0
    updated: int = 0
    outdated: int = 0
    surplus: int = 0
    problem: Problem | None = None

    @property
    def summary(self) -> str:
        """Ready and desired pods."""
        return f"{self.plan.name} {self.ready}/{self.plan.replicas}"

    def to_status(self) -> StageStatus:
        """The status of the stage, without its scaling decision."""
        return StageStatus(
            name=self.plan.name,
            pool=self.plan.pool,
            desired=self.plan.replicas,
            ready=self.ready,
            updated=self.updated,
            reason=self.problem.reason if self.problem else None,
            message=one_line(self.problem.message, limit=MAX_MESSAGE) if self.problem else None,
        )


def stage_problems(stages: Iterable[StageProgress]) -> list[Problem]:
    """The problems of stages, with the stage and its pods in the message."""
    return [Problem(s.problem.reason, f"{s.summary}: {s.problem.message}") for s in stages if s.problem is not None]


def stage_progress(plan: Plan, *, observation: Observation) -> dict[str, list[StageProgress]]:
    """The progress of the stages of each revision, by its name."""
    startable = {ChildKey.of(child) for child in plan.children}

    def progress(stage: StagePlan) -> StageProgress:
        key = ChildKey(DEPLOYMENT.kind, observation.identity.workload_name(stage.key))
        if key in startable:
            return _progress(stage, has_new_template=key in plan.new_templates, observation=observation)
        message = f"{stage.key} pods are created when the first encoder is ready"
        return StageProgress(plan=stage, problem=Problem(Reason.WAITING_FOR_ENCODER, message))

    return {revision.name: [progress(stage) for stage in revision.stages] for revision in plan.rollout.revisions}


def _progress(stage: StagePlan, *, has_new_template: bool, observation: Observation) -> StageProgress:
    live = progress_of(observation.deployment_of(stage.key))
    # Until Kubernetes has observed a new template, it counts the pods of the one before as updated.
    begins = has_new_template or (not live.is_observed and _reported(stage, observation) == Reason.ROLLING_OUT)
    updated = 0 if begins else live.updated
    progress = StageProgress(
        plan=stage,
        ready=live.ready,
        updated=updated,
        outdated=live.pods - updated,
        surplus=max(0, live.pods - stage.replicas),
    )
    # If all pods of the current template exist, the refusal is about pods of an earlier template, which a rollout keeps
    # trying to create until the new ones are ready.
    if live.refusal is not None and updated < stage.replicas:
        return replace(progress, problem=_refused(progress, refusal=live.refusal))
    found = _pod_problem(progress, observation=observation)
    if found is None and not live.is_observed:
        found = Problem(Reason.PODS_STARTING, "Kubernetes has not yet processed the last change of the Deployment")
    return replace(progress, problem=_if_late(found, live=live, stage=progress, begins=begins))


def _reported(stage: StagePlan, observation: Observation) -> str | None:
    """The reason of the stage in the observed status."""
    stages = observation.status.get("stages") or ()
    return next((known.get("reason") for known in stages if known.get("name") == stage.name), None)


def _refused(stage: StageProgress, *, refusal: Refusal) -> Problem:
    message = f"pods cannot be created: {refusal.message}"
    if refusal.by_quota and stage.outdated and limits(stage.plan.rollout, replicas=stage.plan.replicas)[0]:
        message += f": the old pods use the quota: raise it, or {_without_surge(stage.plan)}"
    return Problem(Reason.PODS_REFUSED, message)


def _without_surge(stage: StagePlan) -> str:
    """The setting with which a rollout needs nothing in addition to what its old pods have, and what it costs."""
    return (
        f"set spec.{stage.name}.rollout to {{maxSurge: 0, maxUnavailable: 1}}: an old pod then ends before its "
        "replacement starts, so one replica is missing during the rollout"
    )


def _if_late(problem: Problem | None, *, live: Progress, stage: StageProgress, begins: bool) -> Problem | None:
    """ProgressDeadlineExceeded instead of work in progress, if Kubernetes reports it.

    Not for frontends: they are ready only when workers are, and wait for them without a limit.
    """
    late = live.timed_out is not None and live.is_observed and not begins
    if problem is None or not late or stage.plan.name is StageName.FRONTEND:
        return problem
    if problem.reason not in (Reason.PODS_STARTING, Reason.ROLLING_OUT):
        return problem
    message = f"no further pod has become ready for {live.deadline_seconds} s: {live.timed_out}; {problem.message}"
    return Problem(Reason.PROGRESS_DEADLINE_EXCEEDED, message)


def _pod_problem(stage: StageProgress, *, observation: Observation) -> Problem | None:
    wanted = stage.plan.replicas
    if stage.ready >= wanted and stage.updated >= wanted and not stage.surplus:
        return None
    found = _most_urgent_of_pods(stage.plan, observation=observation)
    if found is not None and found.reason is Reason.UNSCHEDULABLE and stage.outdated:
        return _rollout_blocked(stage.plan, pods=observation.pods_of(stage.plan.key)) or found
    if found is not None and found.reason is not Reason.PODS_STARTING:
        return found
    if stage.ready < wanted and not stage.outdated:
        return found or Problem(Reason.PODS_STARTING, f"{wanted - stage.ready} of {wanted} pods are starting")
    # A rollout continues while outdated pods exist: the ready pods may be the outdated ones.
    if stage.outdated or stage.updated < wanted:
        current = min(stage.updated, wanted)
        waits = f"; {found.message}" if found is not None else ""
        paused = "; the rollout is paused: set spec.rollout.paused to false to continue" if stage.plan.paused else waits
        return Problem(Reason.ROLLING_OUT, f"{current} of {wanted} pods have the current template{paused}")
    return Problem(Reason.SCALING_DOWN, f"scaling down from {wanted + stage.surplus} to {wanted} replicas")


def _rollout_blocked(stage: StagePlan, *, pods: list[KubernetesObject]) -> Problem | None:
    """The problem of a rollout whose new pods wait for what the old ones have; None if it is another one."""
    blocked = blocked_pod(pods, rollout=stage.rollout, replicas=stage.replicas)
    if blocked is None:
        return None
    pod, message = blocked
    return Problem(
        Reason.ROLLOUT_BLOCKED,
        f"pod {pod} of the new template cannot be scheduled while the old pods of stage {stage.key} keep their nodes: "
        f"{one_line(message).rstrip('.')}: add a node, or {_without_surge(stage)}",
    )


def _most_urgent_of_pods(stage: StagePlan, *, observation: Observation) -> Problem | None:
    own = [container["name"] for container in stage.pod_template["spec"]["containers"]]
    problems = (problem_of(pod, events=observation.events_of(pod), own=own) for pod in observation.pods_of(stage.key))
    return most_urgent([problem for problem in problems if problem is not None])


def scaling_status(stage: StageKey, *, observation: Observation, now: str) -> ScalingStatus | None:
    """The last decision on the stage; before the first decision of this operator process, the previous status."""
    before = _previous_scaling(observation.status, stage)
    decision = observation.decisions.get(stage)
    if decision is None:
        return before
    since = before.last_change_time if before is not None and before.desired == decision.desired else None
    return _from_decision(decision, since=since or now)


def _from_decision(decision: Decision, *, since: str) -> ScalingStatus:
    age = decision.metric_age_seconds
    return ScalingStatus(
        current=decision.current,
        desired=decision.desired,
        reason=decision.reason,
        message=decision.message[:1024],
        signal=decision.signal,
        value=_decimal(decision.value),
        target=_decimal(decision.target),
        metric_age_seconds=None if age is None else round(age),
        last_change_time=since,
    )


def _decimal(value: float | None) -> str | None:
    """A decimal number with at most two places, as text: the status has no floating-point numbers."""
    return None if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def _previous_scaling(status: KubernetesObject, stage: StageKey) -> ScalingStatus | None:
    """What the status has about the last decision; None if it has nothing, or if another client wrote nonsense."""
    found = next(
        (known.get("scaling") for known in status.get("stages") or () if known.get("name") == stage.name), None
    )
    try:
        previous = ScalingStatus.model_validate(found)
    except ValueError:
        return None
    numbers = (number for number in (previous.value, previous.target) if number is not None)
    return previous if all(_DECIMAL.fullmatch(number) for number in numbers) else None

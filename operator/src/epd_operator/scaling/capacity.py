"""The capacity of a stage: how many of its pods can run where nodes or a quota are missing.

Two things limit it: the scheduler finds no node for pods, or the API server refuses to create them. The stage is then
limited to the pods that can run, so that other stages can use the rest of ``gpuBudget``. Later the operator tries
again. While pods terminate, nothing is limited: their devices, and their part of a quota, become free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from epd_operator.scaling.model import NodeSupply, ScalingReason, StageObservation
from epd_operator.scaling.state import CapacityLimit, StageState

REFUSED_AFTER_SECONDS = 60.0
"""For how long pods may be refused. No node is waited for, so this is shorter than ``unschedulableAfterSeconds``; pods
of another stage that end may free enough of a quota meanwhile."""

FREED_AFTER_SECONDS = 60.0
"""Time after the end of a terminating pod until its devices and its part of a quota can be used by the next pod."""

NO_NODE_AFTER_SECONDS = 300.0
"""For how long pods may wait for a node at most, if a node autoscaler reports that it adds none. It may report that for
a short time only, for example after a failure in one zone."""

MAX_BACK_OFF = 16
"""Longest time before the next attempt to scale up, in multiples of the shortage's unit."""


@dataclass(frozen=True, kw_only=True)
class _Shortage:
    """Pods that cannot run.

    Attributes:
        replicas: number of pods that can.
        back_off: unit of the time until the next attempt, in seconds.
        reason: why they cannot run.
        cause: the same for users, after "limited to 2 by", with what to do.
    """

    replicas: int
    back_off: float
    reason: ScalingReason
    cause: str


def with_capacity_limit(state: StageState, *, observation: StageObservation, unschedulable_after: float) -> StageState:
    """Update the limit of the stage's capacity.

    The first failed attempt limits the stage for twice the unit of its shortage, the second for 4 times, up to
    ``MAX_BACK_OFF`` times. An attempt that brought more pods than the one before counts as the first. The limit is
    removed when more pods than it run: there is capacity again.

    Args:
        state: state of the stage.
        observation: the stage.
        unschedulable_after: for how long pods may wait for a node, in seconds.
    """
    limit, at = state.capacity_limit, observation.at
    state = _with_terminating_pods(state, observation)
    shortage = _shortage(observation, unschedulable_after=unschedulable_after)
    if shortage is not None:
        if _is_about_to_free(state, at=at):
            return state
        return replace(state, capacity_limit=_limit(shortage, before=limit, at=at))
    if limit is not None and _running(observation, limit=limit) > limit.replicas:
        return replace(state, capacity_limit=None)
    return state


def possible_replicas(
    state: StageState, *, observation: StageObservation, unschedulable_after: float
) -> tuple[StageState, int]:
    """How many replicas of a stage that is not scaled here can run, and its updated state.

    There is no limit to try again later: its user, or an external autoscaler, keeps asking for its replicas, and they
    count as soon as they can run.
    """
    state = StageState(terminated_at=_with_terminating_pods(state, observation).terminated_at)
    shortage = _shortage(observation, unschedulable_after=unschedulable_after)
    if shortage is None or _is_about_to_free(state, at=observation.at):
        return state, observation.replicas
    return state, min(shortage.replicas, observation.replicas)


def _with_terminating_pods(state: StageState, observation: StageObservation) -> StageState:
    return replace(state, terminated_at=observation.at) if observation.terminating else state


def _is_about_to_free(state: StageState, *, at: float) -> bool:
    """Whether pods terminate, or have just ended, so that pods of the stage may soon run in their place."""
    return at - state.terminated_at < FREED_AFTER_SECONDS


def _shortage(observation: StageObservation, *, unschedulable_after: float) -> _Shortage | None:
    waiting, refusal = observation.unschedulable_seconds, observation.refusal
    short = min(unschedulable_after, NO_NODE_AFTER_SECONDS)
    patience = short if observation.nodes is NodeSupply.NONE else unschedulable_after
    # Pods that wait for a node are the request for it: a node autoscaler drops the node if they are deleted.
    if waiting is not None and waiting >= patience and observation.nodes is not NodeSupply.COMING:
        return _Shortage(
            replicas=_placed(observation),
            back_off=short,
            reason=ScalingReason.UNSCHEDULABLE,
            cause="the capacity of the pool: add nodes, or lower maxReplicas",
        )
    if refusal is None or refusal.seconds < REFUSED_AFTER_SECONDS:
        return None
    reason, remedy = ScalingReason.PODS_REFUSED, "correct the cause, or lower maxReplicas"
    if refusal.by_quota:
        reason, remedy = ScalingReason.QUOTA_EXCEEDED, "raise the quota, or lower maxReplicas"
    cause = f"the API server, which creates no more pods ({refusal.message}): {remedy}"
    pods = len(observation.pods)
    return _Shortage(replicas=pods, back_off=REFUSED_AFTER_SECONDS, reason=reason, cause=cause)


def _limit(shortage: _Shortage, *, before: CapacityLimit | None, at: float) -> CapacityLimit:
    """The limit by a shortage: the one before with its time until that has passed, then a new one."""
    limit = CapacityLimit(replicas=shortage.replicas, until=at, reason=shortage.reason, cause=shortage.cause)
    if before is not None and at < before.until:
        return replace(limit, until=before.until, attempts=before.attempts)
    is_repeated = before is not None and before.replicas >= limit.replicas and before.reason is limit.reason
    attempts = before.attempts + 1 if before is not None and is_repeated else 1
    until = at + shortage.back_off * min(2**attempts, MAX_BACK_OFF)
    return replace(limit, until=until, attempts=min(attempts, MAX_BACK_OFF))


def _running(observation: StageObservation, *, limit: CapacityLimit) -> int:
    """Number of pods that show that there is capacity: a refused pod need only exist, any other has to be ready."""
    if limit.reason is ScalingReason.UNSCHEDULABLE:
        return sum(pod.ready for pod in observation.pods)
    return len(observation.pods)


def _placed(observation: StageObservation) -> int:
    """Number of pods that have a node. If all seem to have one, the number of ready pods."""
    scheduled = sum(pod.scheduled for pod in observation.pods)
    return scheduled if scheduled < len(observation.pods) else sum(pod.ready for pod in observation.pods)

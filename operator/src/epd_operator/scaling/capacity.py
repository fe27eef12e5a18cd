"""The capacity of the pool.

A stage with unschedulable pods is limited to the number of pods that have a node. Later the operator tries again.
"""

from __future__ import annotations

from dataclasses import replace

from epd_operator.scaling.model import StageObservation
from epd_operator.scaling.state import CapacityLimit, StageState

MAX_BACK_OFF = 16
"""Longest time before the next attempt to scale up, in multiples of ``unschedulableAfterSeconds``."""


def with_capacity_limit(state: StageState, *, observation: StageObservation, unschedulable_after: float) -> StageState:
    """Update the limit of the pool.

    The first failed attempt limits the stage for 2 x ``unschedulable_after``, the second for 4 x, up to
    ``MAX_BACK_OFF`` x. More ready pods than the limit show that the pool has capacity again: the limit is removed.

    Args:
        state: state of the stage.
        observation: the stage.
        unschedulable_after: for how long pods may wait for a node, in seconds.
    """
    limit, at = state.capacity_limit, observation.at
    waiting = observation.unschedulable_seconds
    if waiting is not None and waiting >= unschedulable_after:
        placed = _placed(observation)
        if limit is not None and at < limit.until:
            return replace(state, capacity_limit=replace(limit, replicas=placed))
        attempts = limit.attempts + 1 if limit else 1
        until = at + unschedulable_after * min(2**attempts, MAX_BACK_OFF)
        new = CapacityLimit(replicas=placed, until=until, attempts=min(attempts, MAX_BACK_OFF))
        return replace(state, capacity_limit=new)
    if limit is not None and sum(pod.ready for pod in observation.pods) > limit.replicas:
        return replace(state, capacity_limit=None)
    return state


def _placed(observation: StageObservation) -> int:
    """Number of pods that have a node. If all seem to have one, the number of ready pods."""
    scheduled = sum(pod.scheduled for pod in observation.pods)
    return scheduled if scheduled < len(observation.pods) else sum(pod.ready for pod in observation.pods)

"""What the pool can place: a stage whose pods find no node falls back to what fits, and tries again later."""

from __future__ import annotations

from dataclasses import replace

from epd_operator.scaling.model import StageObservation
from epd_operator.scaling.state import Cap, StageMemory

LONGEST_BACK_OFF = 16
"""Of the time that pods may find no node: the longest wait before growing is tried again."""


def with_cap(state: StageMemory, *, observation: StageObservation, limit: float) -> StageMemory:
    """Note what the pool can place.

    A failed attempt closes growth for twice the limit, the next for four times, at most ``LONGEST_BACK_OFF`` times;
    more ready pods than the cap show that there is room again.

    Args:
        state: memory of the stage.
        observation: the stage.
        limit: how long pods may find no node, in seconds.
    """
    cap, at = state.cap, observation.at
    waiting = observation.unschedulable_seconds
    if waiting is not None and waiting >= limit:
        placed = _placed(observation)
        if cap is not None and at < cap.until:
            return replace(state, cap=replace(cap, replicas=placed))
        attempts = cap.attempts + 1 if cap else 1
        until = at + limit * min(2**attempts, LONGEST_BACK_OFF)
        return replace(state, cap=Cap(replicas=placed, until=until, attempts=min(attempts, LONGEST_BACK_OFF)))
    if cap is not None and sum(pod.ready for pod in observation.pods) > cap.replicas:
        return replace(state, cap=None)
    return state


def _placed(observation: StageObservation) -> int:
    """Pods that have a node; where the observation does not say which have none, those that are ready."""
    scheduled = sum(pod.scheduled for pod in observation.pods)
    return scheduled if scheduled < len(observation.pods) else sum(pod.ready for pod in observation.pods)

"""The state of a stage's scaling that is kept from one decision to the next. Immutable.

Times are in seconds, on the caller's clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from epd_operator.api.v1alpha1.autoscaling import Behavior
from epd_operator.scaling.model import ScalingReason, StageObservation

START_TIMEOUT_SECONDS = 1800.0
"""A pod that has never been ready, and is not ready after this time, does not count as supply."""

RESTART_TIMEOUT_SECONDS = 300.0
"""The same for a pod that was ready before."""


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The replicas that the load needed at some time."""

    at: float
    replicas: int


@dataclass(frozen=True, kw_only=True)
class ScaleEvent:
    """A decided change: the number of added replicas; negative if replicas were removed."""

    at: float
    change: int


@dataclass(frozen=True, kw_only=True)
class UnreadyPod:
    """A pod that is not ready: since when, and whether it was ready before."""

    name: str
    since: float
    was_ready: bool

    def has_timed_out(self, at: float) -> bool:
        """Whether the pod no longer counts as supply."""
        timeout = RESTART_TIMEOUT_SECONDS if self.was_ready else START_TIMEOUT_SECONDS
        return at - self.since >= timeout


@dataclass(frozen=True, kw_only=True)
class CapacityLimit:
    """The capacity of a stage, observed when pods found no node or were refused.

    Attributes:
        replicas: pods that could run.
        until: when the stage may be scaled up beyond the limit again.
        reason: why other pods could not run.
        cause: the same for users, with what to do.
        attempts: failed attempts in a row; each doubles the time until the next.
    """

    replicas: int
    until: float
    reason: ScalingReason
    cause: str
    attempts: int = 1


@dataclass(frozen=True, kw_only=True)
class LatencyFloor:
    """Replicas below which a stage is not scaled down, because with fewer replicas a latency was above its limit.

    Attributes:
        replicas: one more than the number with which a latency was above its limit.
        until: when the floor expires.
    """

    replicas: int
    until: float


@dataclass(frozen=True, kw_only=True)
class StageState:
    """State of one stage.

    With a new state, a stage can be scaled up at once, but is scaled down only after a whole stabilization window.

    Attributes:
        recommendations: replicas that the load needed, within the longest stabilization window.
        events: changes within the longest period of a policy.
        panicked_at: when the load was last above the panic threshold.
        unsettled_at: when pods were last pending, the load was above the panic threshold, or a latency added a replica.
        ready_pods: pods that were ready at the last decision.
        unready_pods: pods that were not ready at the last decision.
        capacity_limit: limit of the capacity; None if none is known.
        terminated_at: when pods were last terminating.
        latency_floor: floor from the last latency above its limit; None if there was none.
    """

    recommendations: tuple[Recommendation, ...] = ()
    events: tuple[ScaleEvent, ...] = ()
    panicked_at: float | None = None
    unsettled_at: float = -math.inf
    ready_pods: frozenset[str] = frozenset()
    unready_pods: tuple[UnreadyPod, ...] = ()
    capacity_limit: CapacityLimit | None = None
    terminated_at: float = -math.inf
    latency_floor: LatencyFloor | None = None

    def timed_out_pods(self, at: float) -> int:
        """Number of pods that have not become ready in time, and do not count as supply."""
        return sum(pod.has_timed_out(at) for pod in self.unready_pods)

    def pending_pods(self, at: float) -> int:
        """Number of pods that are not ready and have not timed out."""
        return len(self.unready_pods) - self.timed_out_pods(at)


def with_pods(state: StageState, observation: StageObservation) -> StageState:
    """Record which pods are ready, and since when the others are not."""
    before = {pod.name: pod for pod in state.unready_pods}
    unready = tuple(
        before.get(pod.name, UnreadyPod(name=pod.name, since=observation.at, was_ready=pod.name in state.ready_pods))
        for pod in observation.pods
        if not pod.ready
    )
    return replace(state, ready_pods=frozenset(pod.name for pod in observation.pods if pod.ready), unready_pods=unready)


def with_recommendation(state: StageState, *, at: float, replicas: int, current: int, window: float) -> StageState:
    """Add the replicas that the load needs, and drop recommendations that are older than the window.

    Without earlier recommendations (a new stage, a new operator, metrics missing for a whole window), the current
    number counts as one. So a single low sample does not scale the stage down.
    """
    kept = tuple(r for r in state.recommendations if at - r.at < window)
    past = kept or (Recommendation(at=at, replicas=current),)
    return replace(state, recommendations=(*past, Recommendation(at=at, replicas=replicas)))


def with_change(state: StageState, *, at: float, change: int, behavior: Behavior) -> StageState:
    """Add a decided change, and drop changes that are older than the period of every policy."""
    longest = max(p.period_seconds for p in (*behavior.scale_up.policies, *behavior.scale_down.policies))
    kept = tuple(e for e in state.events if at - e.at < longest)
    return replace(state, events=(*kept, ScaleEvent(at=at, change=change)) if change else kept)

"""What a stage's autoscaler remembers between two decisions. Immutable; times are seconds on the caller's clock."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from epd_operator.api.v1alpha1.autoscaling import Behavior
from epd_operator.scaling.model import StageObservation

STARTING_LIMIT_SECONDS = 1800.0
"""A pod that was never ready for longer than this is stuck: no supply to wait for."""

RESTART_LIMIT_SECONDS = 300.0
"""The same for a pod that was ready before."""


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """What the load alone asked for."""

    at: float
    replicas: int


@dataclass(frozen=True, kw_only=True)
class ScaleEvent:
    """A change that was decided: replicas added, or removed where negative."""

    at: float
    change: int


@dataclass(frozen=True, kw_only=True)
class UnreadyPod:
    """A pod that takes no requests, since when, and whether it ever did."""

    name: str
    since: float
    was_ready: bool

    def is_stuck(self, at: float) -> bool:
        """Whether it is no supply to wait for any more."""
        limit = RESTART_LIMIT_SECONDS if self.was_ready else STARTING_LIMIT_SECONDS
        return at - self.since >= limit


@dataclass(frozen=True, kw_only=True)
class Cap:
    """What the pool could place when pods of the stage found no node.

    Attributes:
        replicas: pods that had a node.
        until: when growing beyond it is tried again.
        attempts: how often it was tried without success; each doubles the wait.
    """

    replicas: int
    until: float
    attempts: int = 1


@dataclass(frozen=True, kw_only=True)
class LatencyFloor:
    """Replicas that a stage needs for its latency, learnt from a violation.

    Attributes:
        replicas: one more than violated it.
        until: how long the stage is not shrunk below that.
    """

    replicas: int
    until: float


@dataclass(frozen=True, kw_only=True)
class StageMemory:
    """Memory of one stage. A new one is safe: it lets the stage grow at once and shrink after a full window.

    Attributes:
        recommendations: what the load asked for, within the longest stabilisation window.
        events: changes within the longest period of a policy.
        panicked_at: when the load was last beyond the panic threshold.
        unsettled_at: when pods were last pending, the stage in panic, or raised for a latency.
        ready_pods: pods that were ready at the last decision.
        unready_pods: pods that were not.
        cap: limit of the pool; None where none is known.
        latency_floor: what the last violated latency taught; None where there was none.
    """

    recommendations: tuple[Recommendation, ...] = ()
    events: tuple[ScaleEvent, ...] = ()
    panicked_at: float | None = None
    unsettled_at: float = -math.inf
    ready_pods: frozenset[str] = frozenset()
    unready_pods: tuple[UnreadyPod, ...] = ()
    cap: Cap | None = None
    latency_floor: LatencyFloor | None = None

    def stuck(self, at: float) -> int:
        """Pods that are no supply to wait for."""
        return sum(pod.is_stuck(at) for pod in self.unready_pods)


def with_pods(state: StageMemory, observation: StageObservation) -> StageMemory:
    """Note which pods are ready, and since when the others are not."""
    before = {pod.name: pod for pod in state.unready_pods}
    unready = tuple(
        before.get(pod.name, UnreadyPod(name=pod.name, since=observation.at, was_ready=pod.name in state.ready_pods))
        for pod in observation.pods
        if not pod.ready
    )
    return replace(state, ready_pods=frozenset(pod.name for pod in observation.pods if pod.ready), unready_pods=unready)


def with_recommendation(state: StageMemory, *, at: float, replicas: int, current: int, window: float) -> StageMemory:
    """Add what the load asks for, and forget what is older than the window.

    Without a past (a new stage, a new operator, metrics that were away for a whole window) the present number counts
    as recommended: one low sample after a blind time must not shrink the stage.
    """
    kept = tuple(r for r in state.recommendations if at - r.at < window)
    past = kept or (Recommendation(at=at, replicas=current),)
    return replace(state, recommendations=(*past, Recommendation(at=at, replicas=replicas)))


def with_change(state: StageMemory, *, at: float, change: int, behavior: Behavior) -> StageMemory:
    """Add a decided change, and forget those that no policy looks at any more."""
    longest = max(p.period_seconds for p in (*behavior.scale_up.policies, *behavior.scale_down.policies))
    kept = tuple(e for e in state.events if at - e.at < longest)
    return replace(state, events=(*kept, ScaleEvent(at=at, change=change)) if change else kept)

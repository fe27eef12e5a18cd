"""The decision for one stage alone. Each rule starts from the result of the rule before it, and can override it.

1. Need: the replicas that the load needs (``need``). If the load is unknown, the stage keeps its replicas, and rules 2
   to 5 do not apply.
2. Service level: a latency above its limit that the stage causes adds one replica, once the stage has been settled for
   a stabilization window: no pods were pending, there was no panic, and no latency added a replica.
3. Stabilization windows. In panic, scaling up does not wait for its window. The scale-down window starts again when a
   rollout is complete.
4. No scaling down after a panic until its window has passed, during a rollout that may go on, while pods terminate,
   while pods are pending, and while a latency that the stage causes is close to its limit. No scaling down to a number
   of replicas with which a latency recently was above its limit.
5. Step policies of ``behavior``.
6. Capacity (``capacity``): pods that have found no node for too long, or that the API server refuses, are given up.
7. ``minReplicas`` and ``maxReplicas``, regardless of the other rules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from epd_operator.api.v1alpha1.autoscaling import Autoscaling, Behavior, Scaling
from epd_operator.scaling.behavior import highest_allowed, lowest_allowed, stabilized
from epd_operator.scaling.capacity import with_capacity_limit
from epd_operator.scaling.model import Decision, ScalingReason, StageObservation
from epd_operator.scaling.need import Need, compute_need
from epd_operator.scaling.service_level import SloRisk
from epd_operator.scaling.state import (
    CapacityLimit,
    LatencyFloor,
    StageState,
    with_change,
    with_pods,
    with_recommendation,
)

MIN_SLO_STEP_SECONDS = 60
"""Minimum time between two replicas that are added because of a latency: a mean shows the effect of a step only after a
while."""

LATENCY_FLOOR_WINDOWS = 6
"""For how many stabilization windows a stage is not scaled down again to a number with a latency above its limit."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A proposed number of replicas for one stage, and the rules that led to it.

    Attributes:
        observation: the stage.
        settings: its settings.
        need: the replicas that its load needs.
        desired: the proposed replicas.
        lowest: fewest replicas that the stage may have.
        highest: most replicas that the stage may have, within its capacity.
        limit: the limit of its capacity that applies now; None if there is none.
        reason: that of the last rule that changed the number, otherwise that of the need.
        message: the rules that led to it, with numbers, for users.
        slo_risk: a latency that the stage causes; None if there is none to act on.
    """

    observation: StageObservation
    settings: Autoscaling
    need: Need
    desired: int
    lowest: int
    highest: int
    reason: ScalingReason
    message: str
    limit: CapacityLimit | None = None
    slo_risk: SloRisk | None = None

    @property
    def current(self) -> int:
        """Replicas now."""
        return self.observation.replicas

    def adjusted(self, desired: int, reason: ScalingReason, note: str) -> Proposal:
        """The proposal after one more rule, with a note on that rule in the message."""
        return replace(self, desired=desired, reason=reason, message=f"{self.message}; {note}")


def propose(
    state: StageState,
    observation: StageObservation,
    *,
    settings: Autoscaling,
    scaling: Scaling,
    slo_risk: SloRisk | None = None,
) -> tuple[StageState, Proposal]:
    """The proposal for one stage, and its updated state; the change itself is recorded by ``finalize``."""
    at = observation.at
    state = with_pods(state, observation)
    state = with_capacity_limit(state, observation=observation, unschedulable_after=scaling.unschedulable_after_seconds)
    need = compute_need(
        observation,
        settings=settings,
        stale_after=scaling.stale_after_seconds,
        timed_out_pods=state.timed_out_pods(at),
        lost_replicas=_lost_replicas(state, observation),
    )
    if need.panic:
        state = replace(state, panicked_at=at)
    if need.panic or state.pending_pods(at):
        state = replace(state, unsettled_at=at)
    proposal = _initial_proposal(state, need, observation=observation, settings=settings, slo_risk=slo_risk)
    if need.known:
        state, proposal = _apply_service_level(state, proposal)
        state, proposal = _apply_windows(state, proposal)
        proposal = _prevent_scale_down(state, proposal)
        proposal = _apply_policies(state, proposal)
    return state, _apply_bounds(proposal)


def _lost_replicas(state: StageState, observation: StageObservation) -> int:
    """Number of replicas that have not become ready in time: the surge pods of a rollout are no replicas."""
    surge = max(0, len(observation.pods) - observation.replicas)
    return max(0, state.timed_out_pods(observation.at) - surge)


def finalize(state: StageState, proposal: Proposal) -> tuple[StageState, Decision]:
    """Turn the proposal into the decision, and record the change."""
    observation, need = proposal.observation, proposal.need
    change = proposal.desired - proposal.current
    state = with_change(state, at=observation.at, change=change, behavior=proposal.settings.behavior)
    return state, Decision(
        stage=observation.stage,
        current=proposal.current,
        desired=proposal.desired,
        reason=proposal.reason,
        message=proposal.message,
        signal=need.signal,
        value=need.value,
        target=need.target,
        metric_age_seconds=need.age,
    )


def _initial_proposal(
    state: StageState,
    need: Need,
    *,
    observation: StageObservation,
    settings: Autoscaling,
    slo_risk: SloRisk | None,
) -> Proposal:
    limit, capacity = state.capacity_limit, settings.max_replicas
    if limit is not None and observation.at >= limit.until:
        limit = None
    if limit is not None:
        capacity = min(capacity, limit.replicas)
    return Proposal(
        observation=observation,
        settings=settings,
        need=need,
        desired=need.replicas,
        lowest=settings.min_replicas,
        highest=max(settings.min_replicas, capacity),
        reason=ScalingReason.PANIC if need.panic and need.replicas > observation.replicas else need.reason,
        message=need.message,
        limit=limit,
        slo_risk=slo_risk,
    )


def _windows(behavior: Behavior) -> tuple[int, int]:
    """Stabilization windows of scaling up and down, in seconds."""
    return behavior.scale_up.stabilization_window_seconds, behavior.scale_down.stabilization_window_seconds


def _apply_service_level(state: StageState, proposal: Proposal) -> tuple[StageState, Proposal]:
    """Add one replica to a settled stage that causes a latency above its limit, and set its latency floor.

    Such a latency while the stage is being scaled up, or pods are starting, does not show that the current number is
    too small.
    """
    current, at, risk = proposal.current, proposal.observation.at, proposal.slo_risk
    if risk is None or not risk.violated:
        return state, proposal
    wait = max(*_windows(proposal.settings.behavior), MIN_SLO_STEP_SECONDS)
    if proposal.desired > current or at - state.unsettled_at < wait:
        return state, proposal
    floor = LatencyFloor(replicas=current + 1, until=at + LATENCY_FLOOR_WINDOWS * wait)
    state = replace(state, unsettled_at=at, latency_floor=floor)
    return state, proposal.adjusted(current + 1, ScalingReason.SLO_VIOLATED, f"{risk.message}: one replica is added")


def _apply_windows(state: StageState, proposal: Proposal) -> tuple[StageState, Proposal]:
    current, at, behavior = proposal.current, proposal.observation.at, proposal.settings.behavior
    needed = _within_settings(proposal)
    up, down = _windows(behavior)
    window = max(up, down)
    state = with_recommendation(state, at=at, replicas=needed, current=current, window=window)
    desired = stabilized(
        needed,
        current=current,
        past=state.recommendations,
        at=at,
        behavior=behavior,
        panic=proposal.need.panic,
    )
    if _awaits_rollout(state, proposal.observation) and needed < current:
        # The scale-down window starts again: the current number counts as needed now.
        state = with_recommendation(state, at=at, replicas=current, current=current, window=window)
    if desired == needed:
        return state, proposal
    if needed < desired:
        note = f"kept at {desired} or more until fewer replicas have been needed for {down} s"
    else:
        note = f"kept at {desired} or fewer until more replicas have been needed for {up} s"
    return state, proposal.adjusted(desired, ScalingReason.STABILIZING, note)


def _awaits_rollout(state: StageState, observation: StageObservation) -> bool:
    """Whether a rollout delays scaling down: not if all its new pods have timed out, because it may never end."""
    at = observation.at
    has_failed = state.timed_out_pods(at) > 0 and not state.pending_pods(at)
    return observation.rolling_out and not has_failed


def _prevent_scale_down(state: StageState, proposal: Proposal) -> Proposal:
    """Keep the current number if the stage must not be scaled down now."""
    observation, current = proposal.observation, proposal.current
    if max(proposal.desired, proposal.lowest) >= current:
        return proposal
    window = proposal.settings.panic.window_seconds
    since_panic = None if state.panicked_at is None else observation.at - state.panicked_at
    if since_panic is not None and since_panic < window:
        note = f"not scaled down until {window} s after the last panic ({since_panic:.0f} s ago)"
        return proposal.adjusted(current, ScalingReason.PANIC, note)
    if _awaits_rollout(state, observation):
        return proposal.adjusted(current, ScalingReason.ROLLING_OUT, "not scaled down until the rollout is complete")
    if observation.terminating:
        note = f"not scaled down until the terminating pods ({observation.terminating}) have ended"
        return proposal.adjusted(current, ScalingReason.DRAINING, note)
    if pending := state.pending_pods(observation.at):
        note = f"not scaled down until the pending pods ({pending}) are ready or have timed out"
        return proposal.adjusted(current, ScalingReason.PODS_PENDING, note)
    return _prevent_high_latency(state, proposal)


def _prevent_high_latency(state: StageState, proposal: Proposal) -> Proposal:
    """Keep the replicas that the stage needs for its latency."""
    current, risk, floor = proposal.current, proposal.slo_risk, state.latency_floor
    if risk is not None:
        reason = ScalingReason.SLO_VIOLATED if risk.violated else ScalingReason.SLO_AT_RISK
        return proposal.adjusted(current, reason, f"{risk.message}: not scaled down")
    if floor is not None and proposal.observation.at < floor.until and proposal.desired < floor.replicas:
        lowest = min(current, floor.replicas)
        note = f"not below {lowest}: with fewer than {floor.replicas} replicas a latency recently exceeded spec.slo"
        return proposal.adjusted(lowest, ScalingReason.SLO_AT_RISK, note)
    return proposal


def _apply_policies(state: StageState, proposal: Proposal) -> Proposal:
    current, at, behavior = proposal.current, proposal.observation.at, proposal.settings.behavior
    highest = highest_allowed(current, events=state.events, at=at, rules=behavior.scale_up)
    lowest = lowest_allowed(current, events=state.events, at=at, rules=behavior.scale_down)
    desired = _within_settings(proposal)
    allowed = min(max(desired, lowest), highest)
    if allowed == desired:
        return proposal
    bound = "not above" if allowed < desired else "not below"
    note = f"{bound} {allowed} because of the policies of autoscaling.behavior"
    return proposal.adjusted(allowed, ScalingReason.POLICY_LIMITED, note)


def _within_settings(proposal: Proposal) -> int:
    """The proposed replicas within ``minReplicas`` and ``maxReplicas``."""
    return min(max(proposal.desired, proposal.lowest), proposal.settings.max_replicas)


def _apply_bounds(proposal: Proposal) -> Proposal:
    """Apply ``minReplicas``, ``maxReplicas`` and the capacity."""
    desired, settings, limit = proposal.desired, proposal.settings, proposal.limit
    if desired > settings.max_replicas:
        note = f"limited to {settings.max_replicas} by maxReplicas"
        proposal = proposal.adjusted(settings.max_replicas, ScalingReason.AT_MAXIMUM, note)
    if limit is not None and proposal.desired > proposal.highest:
        note = f"limited to {proposal.highest} by {limit.cause}; the operator tries again automatically"
        return proposal.adjusted(proposal.highest, limit.reason, note)
    if desired < settings.min_replicas:
        note = f"raised to {settings.min_replicas} by minReplicas"
        return proposal.adjusted(settings.min_replicas, ScalingReason.AT_MINIMUM, note)
    return proposal

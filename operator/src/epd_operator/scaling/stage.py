"""The decision for one stage by itself. Rules in the order in which they apply; a later one has the last word.

1. Need: what the load asks for (``need``). Unknown load holds the stage, and is never read as zero.
2. Service level: a violated latency that the stage is to blame for adds one replica, once the stage has been settled
   for a stabilisation window: no pods pending, no panic, nothing added for a latency.
3. Stabilisation windows. In panic, growing does not wait for its window. The window of shrinking begins again when a
   rollout is over.
4. Safety of shrinking: none after a panic until its window has passed, none during a rollout, a drain, while pods are
   pending, or while a latency that the stage is to blame for is close to its limit; none to as few replicas as have
   violated one lately.
5. Step policies of ``behavior``.
6. What the pool can place (``capacity``): pods that found no node for too long are given up.
7. ``minReplicas`` and ``maxReplicas``, whatever the other rules say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from epd_operator.api.v1alpha1.autoscaling import Autoscaling, Behavior, Scaling
from epd_operator.scaling.behavior import highest_allowed, lowest_allowed, stabilised
from epd_operator.scaling.capacity import with_cap
from epd_operator.scaling.latency import Pressure
from epd_operator.scaling.model import Decision, ScalingReason, StageObservation
from epd_operator.scaling.need import Need, assess
from epd_operator.scaling.state import LatencyFloor, StageMemory, with_change, with_pods, with_recommendation

SHORTEST_SLO_STEP_SECONDS = 60
"""Latencies are means over a while: the effect of a step must show before the next."""

LATENCY_MEMORY_WINDOWS = 6
"""How many stabilisation windows a stage is not shrunk again to replicas that violated a latency."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What one stage wants, before the deployment's rules.

    Attributes:
        observation: the stage.
        settings: its settings.
        need: what its load asks for.
        desired: replicas.
        lowest: fewest that the stage may have.
        highest: most that it may have, the pool's room included.
        reason: the rule that had the last word so far.
        message: the same with numbers.
        pressure: what latencies ask of it.
    """

    observation: StageObservation
    settings: Autoscaling
    need: Need
    desired: int
    lowest: int
    highest: int
    reason: ScalingReason
    message: str
    pressure: Pressure | None = None

    @property
    def current(self) -> int:
        """Replicas now."""
        return self.observation.replicas

    def changed(self, desired: int, reason: ScalingReason, words: str) -> Proposal:
        """The same after another rule."""
        return replace(self, desired=desired, reason=reason, message=f"{self.message}; {words}")


def propose(
    state: StageMemory,
    observation: StageObservation,
    *,
    settings: Autoscaling,
    scaling: Scaling,
    pressure: Pressure | None = None,
) -> tuple[StageMemory, Proposal]:
    """What a stage wants, with its memory brought up to date except for the change itself."""
    at = observation.at
    state = with_pods(state, observation)
    state = with_cap(state, observation=observation, limit=scaling.unschedulable_after_seconds)
    need = assess(observation, settings=settings, stale_after=scaling.stale_after_seconds, stuck=state.stuck(at))
    if need.panic:
        state = replace(state, panicked_at=at)
    if need.panic or _pending(state, observation):
        state = replace(state, unsettled_at=at)
    proposal = _unlimited(state, need, observation=observation, settings=settings, pressure=pressure)
    if need.known:
        state, proposal = _press(state, proposal)
        state, proposal = _stabilise(state, proposal)
        proposal = _limit_speed(state, _keep_safe(state, proposal))
    return state, _bound(proposal)


def conclude(state: StageMemory, proposal: Proposal) -> tuple[StageMemory, Decision]:
    """Make the proposal the decision, and remember the change."""
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


def _unlimited(
    state: StageMemory,
    need: Need,
    *,
    observation: StageObservation,
    settings: Autoscaling,
    pressure: Pressure | None,
) -> Proposal:
    cap = state.cap.replicas if state.cap and observation.at < state.cap.until else settings.max_replicas
    reason = ScalingReason.PANIC if need.panic and need.replicas > observation.replicas else need.reason
    return Proposal(
        observation=observation,
        settings=settings,
        need=need,
        desired=need.replicas,
        lowest=settings.min_replicas,
        highest=max(settings.min_replicas, min(cap, settings.max_replicas)),
        reason=reason,
        message=need.message,
        pressure=pressure,
    )


def _windows(behavior: Behavior) -> tuple[int, int]:
    """Stabilisation windows of scaling up and down, in seconds."""
    return behavior.scale_up.stabilization_window_seconds, behavior.scale_down.stabilization_window_seconds


def _press(state: StageMemory, proposal: Proposal) -> tuple[StageMemory, Proposal]:
    """Let a violated latency raise a settled stage by one, and learn what the stage needs.

    What is violated while the load asks for more, or more is starting, says nothing about the present number.
    """
    current, at, behavior = proposal.current, proposal.observation.at, proposal.settings.behavior
    pressure = proposal.pressure
    if pressure is None or not pressure.violated:
        return state, proposal
    up, down = _windows(behavior)
    wait = max(up, down, SHORTEST_SLO_STEP_SECONDS)
    if proposal.desired > current or at - state.unsettled_at < wait:
        return state, proposal
    until = at + LATENCY_MEMORY_WINDOWS * wait
    state = replace(state, unsettled_at=at, latency_floor=LatencyFloor(replicas=current + 1, until=until))
    return state, proposal.changed(current + 1, ScalingReason.SLO_VIOLATED, f"{pressure.message}: one more")


def _stabilise(state: StageMemory, proposal: Proposal) -> tuple[StageMemory, Proposal]:
    current, at, behavior = proposal.current, proposal.observation.at, proposal.settings.behavior
    wanted = min(max(proposal.desired, proposal.lowest), proposal.settings.max_replicas)
    up, down = _windows(behavior)
    state = with_recommendation(state, at=at, replicas=wanted, current=current, window=max(up, down))
    desired = stabilised(
        wanted,
        current=current,
        past=state.recommendations,
        at=at,
        behavior=behavior,
        panic=proposal.need.panic,
    )
    if proposal.observation.rolling_out and wanted < current:
        state = with_recommendation(state, at=at, replicas=current, current=current, window=max(up, down))
    if desired == wanted:
        return state, proposal
    direction, seconds = ("less", down) if wanted < desired else ("more", up)
    words = f"{desired} until the load has asked for {direction} during {seconds} s"
    return state, proposal.changed(desired, ScalingReason.STABILIZING, words)


def _keep_safe(state: StageMemory, proposal: Proposal) -> Proposal:
    """Hold a stage that wants to shrink when it must not."""
    observation, current = proposal.observation, proposal.current
    if max(proposal.desired, proposal.lowest) >= current:
        return proposal
    window = proposal.settings.panic.window_seconds
    calm = None if state.panicked_at is None else observation.at - state.panicked_at
    if calm is not None and calm < window:
        words = f"{current} until {window} s after the last panic, {calm:.0f} s ago"
        return proposal.changed(current, ScalingReason.PANIC, words)
    if observation.rolling_out:
        return proposal.changed(current, ScalingReason.ROLLING_OUT, f"{current} until the rollout is over")
    if observation.draining:
        words = f"{current} until {observation.draining} leaving pods are drained"
        return proposal.changed(current, ScalingReason.DRAINING, words)
    if pending := _pending(state, observation):
        words = f"{current} until {pending} pending pods are ready or given up"
        return proposal.changed(current, ScalingReason.PODS_PENDING, words)
    return _keep_latency(state, proposal)


def _keep_latency(state: StageMemory, proposal: Proposal) -> Proposal:
    """Hold a stage that would become too slow if it shrank."""
    observation, current = proposal.observation, proposal.current
    if proposal.pressure is not None:
        reason = ScalingReason.SLO_VIOLATED if proposal.pressure.violated else ScalingReason.SLO_AT_RISK
        return proposal.changed(current, reason, f"{proposal.pressure.message}: not shrinking")
    floor = state.latency_floor
    if floor is not None and observation.at < floor.until and proposal.desired < floor.replicas:
        words = f"fewer than {floor.replicas} violated the service level lately"
        return proposal.changed(min(current, floor.replicas), ScalingReason.SLO_AT_RISK, words)
    return proposal


def _pending(state: StageMemory, observation: StageObservation) -> int:
    """Pods that may still become ready."""
    return len(state.unready_pods) - state.stuck(observation.at)


def _limit_speed(state: StageMemory, proposal: Proposal) -> Proposal:
    current, at, behavior = proposal.current, proposal.observation.at, proposal.settings.behavior
    fastest_up = highest_allowed(current, events=state.events, at=at, rules=behavior.scale_up)
    fastest_down = lowest_allowed(current, events=state.events, at=at, rules=behavior.scale_down)
    wanted = min(max(proposal.desired, proposal.lowest), proposal.settings.max_replicas)
    allowed = min(max(wanted, fastest_down), fastest_up)
    if allowed == wanted:
        return proposal
    return proposal.changed(allowed, ScalingReason.POLICY_LIMITED, f"{allowed} by the policies of behavior")


def _bound(proposal: Proposal) -> Proposal:
    desired, settings = proposal.desired, proposal.settings
    if desired > settings.max_replicas:
        words = f"maxReplicas is {settings.max_replicas}"
        proposal = proposal.changed(settings.max_replicas, ScalingReason.AT_MAXIMUM, words)
    if proposal.desired > proposal.highest:
        words = f"the pool has room for {proposal.highest}: add nodes, or lower the load; tried again later"
        return proposal.changed(proposal.highest, ScalingReason.UNSCHEDULABLE, words)
    if desired < settings.min_replicas:
        words = f"minReplicas is {settings.min_replicas}"
        return proposal.changed(settings.min_replicas, ScalingReason.AT_MINIMUM, words)
    return proposal

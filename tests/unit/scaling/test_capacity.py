"""The capacity of a stage in virtual time: pods without a node, and pods that the API server refuses."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from epd_operator.api.v1alpha1.autoscaling import Scaling
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey
from epd_operator.scaling.capacity import FREED_AFTER_SECONDS, MAX_BACK_OFF, REFUSED_AFTER_SECONDS
from epd_operator.scaling.decision import decide_all
from epd_operator.scaling.model import Decision, PodLoad, PodRefusal, ScalingReason, StageObservation
from epd_operator.scaling.state import StageState
from unit.scaling.builders import PD, SCALING, decide, even, pods, seen, settings

TICK = 15.0
REFUSED = 'pods "pd-x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1'


@dataclass
class Namespace:
    """A stage with an even load, in a namespace that allows so many of its pods."""

    allowed: int
    load: float
    by_quota: bool = True
    replicas: int = 1
    at: float = 0.0
    refused_since: float | None = None
    state: StageState = field(default_factory=StageState)

    def step(self) -> Decision:
        """Create the pods that are allowed, and decide."""
        existing = min(self.replicas, self.allowed)
        refusal = None
        if existing < self.replicas:
            self.refused_since = self.at if self.refused_since is None else self.refused_since
            refusal = PodRefusal(message=REFUSED, seconds=self.at - self.refused_since, by_quota=self.by_quota)
        else:
            self.refused_since = None
        loads = pods([self.load / existing] * existing, at=self.at)
        observation = StageObservation(stage=PD, at=self.at, replicas=self.replicas, pods=loads, refusal=refusal)
        self.state, decision = decide(self.state, observation, settings(), SCALING)
        self.replicas, self.at = decision.desired, self.at + TICK
        return decision

    def run(self, seconds: float) -> list[Decision]:
        return [self.step() for _ in range(int(seconds / TICK))]


def test_a_stage_above_its_quota_falls_back_to_the_pods_that_exist_and_quotes_the_api_server() -> None:
    namespace = Namespace(allowed=8, load=120)
    decisions = namespace.run(180)
    assert max(d.desired for d in decisions) == 12
    capped = decisions[-1]
    assert (capped.desired, capped.reason) == (8, ScalingReason.QUOTA_EXCEEDED)
    assert "limited to 8 by the API server, which creates no more pods" in capped.message
    assert "exceeded quota: gpus" in capped.message
    assert "raise the quota, or lower maxReplicas" in capped.message


def test_a_stage_at_150_percent_of_its_target_never_reports_for_long_that_its_load_is_within_the_target() -> None:
    decisions = Namespace(allowed=8, load=120).run(6 * 3600)
    within = [d for d in decisions if d.reason is ScalingReason.WITHIN_TARGET]
    assert len(within) * TICK <= 0.1 * 6 * 3600
    assert decisions[-1].reason is ScalingReason.QUOTA_EXCEEDED


def test_pods_that_are_refused_for_another_reason_than_a_quota_have_a_reason_of_their_own() -> None:
    capped = Namespace(allowed=8, load=120, by_quota=False).run(180)[-1]
    assert (capped.desired, capped.reason) == (8, ScalingReason.PODS_REFUSED)
    assert "raise the quota" not in capped.message


def test_growing_beyond_a_quota_is_tried_again_ever_more_rarely() -> None:
    namespace, attempts = Namespace(allowed=8, load=120), []
    for _ in range(2000):
        before, decision = namespace.replicas, namespace.step()
        if before <= 8 < decision.desired:
            attempts.append(namespace.at)
    gaps = [b - a for a, b in itertools.pairwise(attempts)]
    assert gaps == sorted(gaps)
    assert gaps[0] >= 2 * REFUSED_AFTER_SECONDS
    longest = (MAX_BACK_OFF + 1) * REFUSED_AFTER_SECONDS
    assert longest <= gaps[-1] <= longest + 2 * TICK


def test_a_stage_grows_within_one_back_off_after_its_quota_was_raised() -> None:
    namespace = Namespace(allowed=8, load=120)
    namespace.run(4 * 3600)
    namespace.allowed = 12
    decisions = namespace.run(MAX_BACK_OFF * REFUSED_AFTER_SECONDS + 2 * TICK)
    assert decisions[-1].desired == 12
    assert decisions[-1].reason is ScalingReason.WITHIN_TARGET
    assert namespace.state.capacity_limit is None


def test_a_quota_that_was_raised_by_too_little_starts_the_back_off_again() -> None:
    namespace = Namespace(allowed=8, load=120)
    namespace.run(4 * 3600)
    assert namespace.state.capacity_limit is not None
    before = namespace.state.capacity_limit.attempts
    namespace.allowed = 10
    namespace.run(MAX_BACK_OFF * REFUSED_AFTER_SECONDS + REFUSED_AFTER_SECONDS + 3 * TICK)
    assert namespace.replicas == 10
    assert namespace.state.capacity_limit is not None
    assert namespace.state.capacity_limit.attempts < before


def test_replicas_that_a_quota_refuses_do_not_keep_gpus_of_the_budget_from_another_stage() -> None:
    encoder = StageObservation(
        stage=StageKey(StageName.ENCODER),
        at=0.0,
        replicas=2,
        pods=pods([20.0] * 2, at=0.0),
    )
    refusal = PodRefusal(message=REFUSED, seconds=REFUSED_AFTER_SECONDS, by_quota=True)
    pd = StageObservation(stage=PD, at=0.0, replicas=6, pods=pods([15.0] * 2, at=0.0), refusal=refusal)
    chosen = {encoder.stage: settings(), PD: settings()}
    _, decisions = decide_all({}, [encoder, pd], chosen, Scaling(gpu_budget=8))
    assert {str(d.stage): d.desired for d in decisions} == {"encoder": 4, "pd": 2}


def test_a_short_refusal_is_waited_for() -> None:
    refusal = PodRefusal(message=REFUSED, seconds=REFUSED_AFTER_SECONDS - 1, by_quota=True)
    loads = pods([10.0] * 2, at=0.0)
    _, decision = decide(StageState(), seen([], at=0.0, replicas=4, pods=loads, refusal=refusal), settings(), SCALING)
    assert decision.desired == 4


def waiting_for_a_node(at: float, **changes: object) -> StageObservation:
    """Two pods, one of which has found no node for an hour."""
    nodeless = PodLoad(name="u", ready=False, scheduled=False)
    loads = (*pods([10.0], at=at), nodeless)
    return seen([], at=at, replicas=2, pods=loads, unschedulable_seconds=3600.0, **changes)


def test_a_stage_is_not_scaled_back_while_its_pods_terminate_and_are_about_to_free_their_gpus() -> None:
    state, decision = decide(
        StageState(), waiting_for_a_node(0.0, terminating=1, rolling_out=True), settings(), SCALING
    )
    assert decision.desired == 2
    state, decision = decide(state, waiting_for_a_node(FREED_AFTER_SECONDS - 1, rolling_out=True), settings(), SCALING)
    assert decision.desired == 2
    state, decision = decide(state, waiting_for_a_node(FREED_AFTER_SECONDS), settings(), SCALING)
    assert (decision.desired, decision.reason) == (1, ScalingReason.UNSCHEDULABLE)


def test_a_surge_pod_that_finds_no_node_does_not_shrink_its_stage() -> None:
    surge = PodLoad(name="surge", ready=False, scheduled=False)
    state = StageState()
    for n in range(1000):
        loads = (*pods([10.0] * 2, at=TICK * n), surge)
        blocked = seen([], at=TICK * n, replicas=2, pods=loads, unschedulable_seconds=TICK * n, rolling_out=True)
        state, decision = decide(state, blocked, settings(), SCALING)
        assert decision.desired == 2


def test_a_surge_pod_that_never_starts_is_not_counted_as_a_lost_replica() -> None:
    surge = PodLoad(name="surge", ready=False)
    state = StageState()
    for n in range(1000):
        loads = (*pods([10.5] * 2, at=TICK * n), surge)
        observation = seen([], at=TICK * n, replicas=2, pods=loads, rolling_out=True)
        state, decision = decide(state, observation, settings(), SCALING)
        assert decision.desired == 2
    assert decide(state, even(40, 2, at=1e6), settings(), SCALING)[1].desired == 4

"""The rules of the stage autoscaler, one test each, named after it."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from epd_operator.api.v1alpha1.autoscaling import (
    Autoscaling,
    AutoscalingMode,
    Behavior,
    Metric,
    MetricType,
    ScaleDownRules,
    ScaleUpRules,
    Scaling,
)
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey
from epd_operator.scaling.decision import decide_all
from epd_operator.scaling.model import Decision, PodLoad, ScalingReason, StageObservation
from epd_operator.scaling.state import RESTART_TIMEOUT_SECONDS, START_TIMEOUT_SECONDS, StageState
from unit.scaling.builders import AT_ONCE, SCALING, decide, even, first, pods, seen, settings


def play(
    observations: list[StageObservation], chosen: Autoscaling | None = None, scaling: Scaling = SCALING
) -> list[Decision]:
    """Decisions one after the other; the observations say what became of them."""
    state, found = StageState(), []
    for observation in observations:
        state, decision = decide(state, observation, chosen or settings(), scaling)
        found.append(decision)
    return found


# Rule 1: the signal


def test_the_signal_is_the_sum_over_ready_pods_divided_by_the_target_not_the_mean_of_gauges() -> None:
    decision = first(seen([40, 0, 0, 0, 0]))
    assert (decision.desired, decision.reason) == (4, ScalingReason.LOAD_BELOW_TARGET)
    assert first(seen([41, 0, 0, 0, 0])).desired == 5


def test_pods_that_are_not_ready_do_not_add_their_last_load() -> None:
    dead = PodLoad(name="dead", ready=False, requests=500, measured_at=1000)
    decision = first(seen([10, 10], replicas=3, pods=(*pods([10, 10], at=1000), dead)))
    assert decision.desired == 3


def test_of_several_metrics_the_one_that_asks_for_most_decides() -> None:
    both = settings(
        behavior=AT_ONCE,
        metrics=[
            Metric(type=MetricType.REQUESTS, target_per_replica=10),
            Metric(type=MetricType.KV_CACHE_USAGE, target_per_replica=50),
        ],
    )
    full = [PodLoad(name=f"p{n}", ready=True, requests=1, kv_cache_percent=90, measured_at=1000) for n in range(2)]
    decision = first(seen([1, 1], pods=tuple(full)), both)
    assert (decision.desired, decision.signal, decision.value, decision.target) == (4, "kvCacheUsage", 90, 50)


# Rule 2: tolerance


@pytest.mark.parametrize(("load", "desired"), [(109, 10), (111, 12), (91, 10), (89, 9)])
def test_a_deviation_within_the_tolerance_is_ignored(load: float, desired: int) -> None:
    assert first(even(load, 10)).desired == desired


def test_each_direction_has_a_tolerance_of_its_own() -> None:
    wide_down = settings(
        behavior=Behavior(scale_down=ScaleDownRules(stabilization_window_seconds=0, tolerance_percent=50))
    )
    assert first(even(60, 10), wide_down).desired == 10
    assert first(even(111, 10), wide_down).desired == 12
    wide_up = settings(behavior=Behavior(scale_up=ScaleUpRules(tolerance_percent=50)))
    assert first(even(140, 10), wide_up).desired == 10


# Rule 3: missing and stale metrics


def test_without_any_metric_the_stage_is_held_and_never_read_as_idle() -> None:
    decision = first(seen([None, None, None]))
    assert (decision.desired, decision.reason) == (3, ScalingReason.METRICS_MISSING)


def test_stale_metrics_hold_the_stage() -> None:
    decision = first(seen([0, 0, 0], age=61))
    assert (decision.desired, decision.reason) == (3, ScalingReason.METRICS_STALE)
    assert first(seen([0, 0, 0], age=60)).desired == 1


def test_not_a_number_is_missing_not_zero() -> None:
    assert first(seen([float("nan"), float("nan")])).reason is ScalingReason.METRICS_MISSING


def test_the_age_of_the_oldest_sample_is_told() -> None:
    old, new = pods([10, 10], at=1000, age=40)[0], pods([10, 10], at=1000, age=5)[1]
    assert first(seen([10, 10], pods=(old, new))).metric_age_seconds == 40


def test_a_pod_without_metrics_counts_as_loaded_to_its_target_when_shrinking() -> None:
    assert first(seen([0, 0, 0, None])).desired == 1
    assert first(seen([2, 2, 2, None])).desired == 2


def test_a_pod_without_metrics_counts_as_idle_when_growing() -> None:
    assert first(seen([13, 13, 13, None])).desired == 4
    assert first(seen([16, 16, 16, None])).desired == 5


def test_one_silent_pod_does_not_block_shrinking_for_ever() -> None:
    history = [seen([0, 0, 0, 0, None], at=15.0 * n) for n in range(30)]
    assert play(history)[-1].desired == 1


def test_when_one_of_two_metrics_is_missing_the_other_may_only_grow_the_stage() -> None:
    both = settings(
        behavior=AT_ONCE,
        metrics=[
            Metric(type=MetricType.REQUESTS, target_per_replica=10),
            Metric(type=MetricType.KV_CACHE_USAGE, target_per_replica=50),
        ],
    )
    held = first(seen([0, 0]), both)
    assert (held.desired, held.reason, held.signal) == (2, ScalingReason.METRICS_MISSING, "kvCacheUsage")
    assert first(seen([20, 20]), both).desired == 4


def test_metrics_that_come_back_after_a_blind_time_do_not_shrink_the_stage_at_once() -> None:
    blind = [seen([None] * 5, at=15.0 * n) for n in range(100)]
    back = [seen([0] * 5, at=1500 + 15.0 * n) for n in range(21)]
    decisions = play([even(50, 5, at=0), *blind, *back])
    assert [d.desired for d in decisions[:-1]] == [5] * 121
    assert decisions[-1].desired == 1


# Rule 4: pods that are starting


def test_starting_pods_are_supply_when_growing() -> None:
    assert first(seen([20, 20], starting=2)).desired == 4
    assert first(seen([21, 21], starting=2)).desired == 4
    assert first(seen([25, 25], starting=2)).desired == 5


def test_a_stage_does_not_grow_every_cycle_while_its_pods_start() -> None:
    history = [even(40, 1, at=0), *(seen([40], starting=3, at=15.0 * n) for n in range(1, 12))]
    assert {d.desired for d in play(history)} == {4}


def test_starting_pods_give_nothing_to_spare_when_shrinking() -> None:
    state, _ = decide(StageState(), seen([1, 1], starting=2, at=0), settings(), SCALING)
    assert state.recommendations[-1].replicas == 3


# Rule 5: windows, policies, and the time after a rollout


def test_growing_does_not_wait() -> None:
    assert play([even(20, 2, at=0), even(40, 2, at=15)])[-1].desired == 4


def test_shrinking_waits_until_the_load_has_been_low_for_the_whole_window() -> None:
    decisions = play([even(50, 5, at=0), *(even(10, 5, at=15.0 * n) for n in range(1, 21))])
    assert [d.desired for d in decisions] == [5] * 20 + [1]
    assert decisions[5].reason is ScalingReason.STABILIZING


def test_a_new_operator_shrinks_only_after_a_whole_window() -> None:
    decisions = play([even(10, 5, at=15.0 * n) for n in range(21)])
    assert [d.desired for d in decisions] == [5] * 20 + [1]


def test_a_window_on_the_way_up_takes_the_smallest_recommendation() -> None:
    slow = settings(behavior=Behavior(scale_up=ScaleUpRules(stabilization_window_seconds=30)))
    decisions = play([even(15, 1, at=15.0 * n) for n in range(3)], slow)
    assert [d.desired for d in decisions] == [1, 1, 2]


def test_policies_limit_the_speed_in_both_directions() -> None:
    decision = first(even(200, 1))
    assert (decision.desired, decision.reason) == (5, ScalingReason.POLICY_LIMITED)
    slow = settings(
        behavior=Behavior.model_validate(
            {
                "scaleDown": {
                    "stabilizationWindowSeconds": 0,
                    "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}],
                }
            }
        )
    )
    decisions = play([even(1, 9, at=0), even(1, 7, at=15), even(1, 7, at=60)], slow)
    assert [d.desired for d in decisions] == [7, 7, 5]
    assert decisions[1].reason is ScalingReason.POLICY_LIMITED


@pytest.mark.parametrize("direction", ["scaleUp", "scaleDown"])
def test_a_disabled_direction_stays(direction: str) -> None:
    rules = {direction: {"selectPolicy": "Disabled", "stabilizationWindowSeconds": 0}}
    load = 100 if direction == "scaleUp" else 1
    decision = first(even(load, 4), settings(behavior=Behavior.model_validate(rules)))
    assert (decision.desired, decision.reason) == (4, ScalingReason.POLICY_LIMITED)


def test_after_a_rollout_a_whole_window_passes_before_shrinking() -> None:
    rollout = [even(10, 5, at=15.0 * n, rolling_out=True) for n in range(40)]
    after = [even(10, 5, at=600 + 15.0 * n) for n in range(20)]
    decisions = play([*rollout, *after])
    assert [d.desired for d in decisions] == [5] * 59 + [1]
    assert decisions[39].reason in (ScalingReason.ROLLING_OUT, ScalingReason.STABILIZING)


# Rule 6: panic


def test_panic_grows_at_once_even_with_a_window_on_the_way_up() -> None:
    slow = settings(behavior=Behavior(scale_up=ScaleUpRules(stabilization_window_seconds=300)))
    decision = first(even(40, 2), slow)
    assert (decision.desired, decision.reason) == (4, ScalingReason.PANIC)
    assert first(even(39, 2), slow).desired == 2


def test_after_a_panic_nothing_shrinks_until_its_window_has_passed() -> None:
    decisions = play([even(40, 2, at=0), *(even(4, 4, at=15.0 * n) for n in range(1, 5))], settings(behavior=AT_ONCE))
    assert [d.desired for d in decisions] == [4, 4, 4, 4, 1]
    assert decisions[1].reason is ScalingReason.PANIC


# Rule 7: no shrinking while something is under way


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rolling_out": True}, ScalingReason.ROLLING_OUT),
        ({"terminating": 1}, ScalingReason.DRAINING),
        ({"starting": 1}, ScalingReason.PODS_PENDING),
    ],
)
def test_nothing_shrinks_during_a_rollout_a_drain_or_while_pods_are_pending(
    changes: dict[str, bool | int], reason: ScalingReason
) -> None:
    observation = even(5, 5, **changes)
    decision = first(observation)
    assert (decision.desired, decision.reason) == (observation.replicas, reason)


def test_a_rollout_does_not_keep_a_stage_from_growing() -> None:
    assert first(even(80, 5, rolling_out=True, terminating=1)).desired == 8


def test_a_rollout_whose_new_pods_never_become_ready_delays_shrinking_only_for_a_while() -> None:
    surge = PodLoad(name="surge", ready=False)

    def failed(at: float) -> StageObservation:
        return seen([], at=at, replicas=2, pods=(*pods([4, 4], at=at), surge), rolling_out=True)

    at_once = settings(behavior=AT_ONCE)
    decisions = play([failed(at) for at in (0.0, START_TIMEOUT_SECONDS - 1, START_TIMEOUT_SECONDS)], at_once)
    assert [d.desired for d in decisions] == [2, 2, 1]
    ticks = [15.0 * n for n in range(200)]
    first_low = next(at for at, d in zip(ticks, play([failed(at) for at in ticks]), strict=True) if d.desired == 1)
    assert first_low == START_TIMEOUT_SECONDS - 15 + 300


def test_a_stage_without_any_ready_pod_is_held() -> None:
    decision = first(seen([], starting=3))
    assert (decision.desired, decision.reason) == (3, ScalingReason.PODS_PENDING)


def test_a_dead_pod_blocks_shrinking_only_for_a_while() -> None:
    dead = PodLoad(name="p3", ready=False, requests=900, measured_at=0)
    later = [
        seen([1, 1, 1], at=at, replicas=4, pods=(*pods([1, 1, 1], at=at), dead))
        for at in (15.0, RESTART_TIMEOUT_SECONDS, 15 + RESTART_TIMEOUT_SECONDS)
    ]
    decisions = play([even(40, 4, at=0), *later], settings(behavior=AT_ONCE))
    assert [d.desired for d in decisions] == [4, 4, 4, 1]
    assert decisions[2].reason is ScalingReason.PODS_PENDING


def test_a_pod_that_never_becomes_ready_is_given_up_and_replaced_under_load() -> None:
    history = [seen([12, 12], starting=1, at=at) for at in (0.0, START_TIMEOUT_SECONDS - 1, START_TIMEOUT_SECONDS)]
    assert [d.desired for d in play(history)] == [3, 3, 4]


# Rule 9: what the pool can place; the band (8) and the budget (9) have a file of their own


def unplaced(at: float, *, placed: int, without_node: int, waiting: float | None) -> StageObservation:
    nodeless = tuple(PodLoad(name=f"u{n}", ready=False, scheduled=False) for n in range(without_node))
    loads = pods([30.0] * placed, at=at)
    return seen([], at=at, replicas=placed + without_node, pods=(*loads, *nodeless), unschedulable_seconds=waiting)


def test_a_stage_whose_pods_find_no_node_falls_back_to_what_fits_and_says_so() -> None:
    assert first(unplaced(0, placed=2, without_node=4, waiting=299)).desired == 6
    decision = first(unplaced(0, placed=2, without_node=4, waiting=300))
    assert (decision.desired, decision.reason) == (2, ScalingReason.UNSCHEDULABLE)
    assert "limited to 2 by the capacity of the pool" in decision.message


def test_growing_beyond_what_fits_is_tried_again_ever_more_rarely_and_without_flapping() -> None:
    state, replicas, since = StageState(), 2, None
    tries = []
    for tick in range(800):
        at = 15.0 * tick
        missing = replicas - 2
        since = (at if since is None else since) if missing else None
        waiting = None if since is None else at - since
        observation = unplaced(at, placed=2, without_node=missing, waiting=waiting)
        state, decision = decide(state, observation, settings(), SCALING)
        if decision.desired > replicas:
            tries.append(at)
        replicas = decision.desired
    gaps = [b - a for a, b in itertools.pairwise(tries)]
    assert tries[0] == 0
    assert gaps
    assert min(gaps) >= 300 + 2 * 300
    assert gaps == sorted(gaps)


def test_when_there_is_room_again_the_stage_grows_to_its_need() -> None:
    state, capped = decide(StageState(), unplaced(0, placed=2, without_node=4, waiting=300), settings(), SCALING)
    state, held = decide(state, even(60, 2, at=315), settings(), SCALING)
    state, again = decide(state, even(60, 2, at=900), settings(), SCALING)
    state, grown = decide(state, even(60, 6, at=1000), settings(), SCALING)
    assert [d.desired for d in (capped, held, again, grown)] == [2, 2, 6, 6]
    assert state.capacity_limit is None


# Bounds


def test_a_stage_is_never_scaled_below_its_minimum_and_says_so() -> None:
    decision = first(even(0, 3), settings(behavior=AT_ONCE, min_replicas=2))
    assert (decision.desired, decision.reason) == (2, ScalingReason.AT_MINIMUM)


def test_even_an_idle_stage_keeps_one_replica() -> None:
    assert first(even(0, 3)).desired == 1
    assert first(even(0, 1)).desired == 1


def test_a_stage_is_never_scaled_beyond_its_maximum_and_says_so() -> None:
    decision = first(even(500, 18))
    assert (decision.desired, decision.reason) == (20, ScalingReason.AT_MAXIMUM)
    assert "replicas needed: 50; limited to 20 by maxReplicas" in decision.message


def test_new_bounds_hold_at_once_even_without_metrics() -> None:
    blind = seen([None, None])
    assert first(blind, settings(min_replicas=4)).desired == 4
    assert first(blind, settings(max_replicas=1)).desired == 1


# Who is touched


def test_stages_in_mode_external_or_without_autoscaling_are_not_touched() -> None:
    external = Autoscaling(mode=AutoscalingMode.EXTERNAL, max_replicas=20)
    observations = [even(100, 2, stage=StageKey(StageName.ENCODER)), even(100, 2, stage=StageKey(StageName.PD))]
    _, decisions = decide_all(
        {}, observations, {StageKey(StageName.ENCODER): external, StageKey(StageName.PD): None}, SCALING
    )
    assert decisions == ()


# Rule 12: explanation


def test_every_decision_explains_itself_with_numbers() -> None:
    decision = first(even(60, 4))
    assert decision.message == "requests per ready replica: 15.0, target 10 (4 of 4 ready); replicas needed: 6"
    assert dataclasses.astuple(decision)[1:4] == (4, 6, ScalingReason.LOAD_ABOVE_TARGET)


def test_the_memory_of_a_stage_stays_small() -> None:
    state = StageState()
    for n in range(1000):
        state, _ = decide(state, even(40 if n % 2 else 20, 3, at=15.0 * n), settings(), SCALING)
    assert len(state.recommendations) <= 300 / 15 + 1
    assert len(state.events) <= 1

"""What the stages of a deployment share: the band of encoders per PD worker (rule 8) and the GPU budget (rule 9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from epd_operator.api.v1alpha1.autoscaling import Autoscaling, AutoscalingMode, RatioBand, Scaling
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey
from epd_operator.scaling.capacity import FREED_AFTER_SECONDS, REFUSED_AFTER_SECONDS
from epd_operator.scaling.decision import decide_all
from epd_operator.scaling.model import Decision, NodeSupply, PodLoad, PodRefusal, ScalingReason, StageObservation
from unit.scaling.builders import AT_ONCE, even, pods, seen, settings

E, P, F = StageKey(StageName.ENCODER), StageKey(StageName.PD), StageKey(StageName.FRONTEND)
QUICK = settings(behavior=AT_ONCE)


def deployment(encoders: StageObservation, workers: StageObservation, *others: StageObservation, **scaling: Any) -> Any:
    """Decisions by stage, both stages scaled at once."""
    return decided([encoders, workers, *others], {E: QUICK, P: QUICK}, **scaling)


def decided(
    observations: list[StageObservation],
    chosen: dict[StageKey, Autoscaling | None],
    *,
    gpus_beside: int = 0,
    **scaling: Any,
) -> dict[StageKey, Decision]:
    found = decide_all({}, observations, chosen, Scaling(**scaling), gpus_beside=gpus_beside)[1]
    return {d.stage: d for d in found}


def band(low: int, high: int) -> dict[str, RatioBand]:
    return {"encoders_per_pd": RatioBand(min_percent=low, max_percent=high)}


def desired(found: dict[StageKey, Decision]) -> tuple[int, ...]:
    return tuple(decision.desired for decision in found.values())


# The band


def test_encoders_that_lag_behind_pd_are_raised() -> None:
    found = deployment(even(5, 1, stage=E), even(80, 8, stage=P), **band(50, 200))
    assert desired(found) == (4, 8)
    assert found[E].reason is ScalingReason.RATIO_BAND
    assert "50 to 200 encoders per 100 PD workers" in found[E].message


def test_pd_workers_that_lag_behind_encoders_are_raised() -> None:
    found = deployment(even(60, 6, stage=E), even(5, 1, stage=P), **band(25, 100))
    assert desired(found) == (6, 6)
    assert found[P].reason is ScalingReason.RATIO_BAND


def test_the_leading_stage_is_not_lowered_and_the_clamp_is_told() -> None:
    few = settings(behavior=AT_ONCE, max_replicas=2)
    found = decided([even(5, 1, stage=E), even(80, 8, stage=P)], {E: few, P: QUICK}, **band(50, 100))
    assert desired(found) == (2, 8)
    assert "limited to 2 by maxReplicas" in found[E].message


def test_a_band_that_no_whole_number_fits_raises_nothing_and_is_told() -> None:
    found = deployment(even(5, 1, stage=E), even(30, 3, stage=P), **band(33, 33))
    assert desired(found) == (1, 3)
    assert "widen the range" in found[P].message


def test_a_narrow_band_does_not_drive_the_stages_up_in_turns() -> None:
    states: Any = {}
    replicas = {E: 1, P: 3}
    for n in range(100):
        observations = [
            seen([5 / replicas[E]], starting=replicas[E] - 1, stage=E, at=15.0 * n),
            seen([28 / 3] * 3, starting=replicas[P] - 3, stage=P, at=15.0 * n),
        ]
        states, decisions = decide_all(states, observations, {E: QUICK, P: QUICK}, Scaling(**band(30, 33)))
        replicas = {d.stage: d.desired for d in decisions}
    assert replicas == {E: 1, P: 3}


def test_a_lagging_stage_is_held_in_the_band_when_its_own_load_is_gone() -> None:
    found = deployment(even(1, 6, stage=E), even(80, 8, stage=P), **band(50, 200))
    assert desired(found) == (4, 8)


def test_a_lagging_stage_that_is_not_scaled_here_is_named_by_the_other() -> None:
    external = Autoscaling(mode=AutoscalingMode.EXTERNAL, max_replicas=20)
    found = decided([even(5, 1, stage=E), even(80, 8, stage=P)], {E: external, P: QUICK}, **band(50, 200))
    assert set(found) == {P}
    assert "requires at least 4 replicas of stage encoder, of which 1 can run" in found[P].message


def test_a_stage_that_is_not_scaled_here_counts_for_the_band() -> None:
    found = decided([even(5, 1, stage=E), even(1, 8, stage=P)], {E: QUICK}, **band(50, 200))
    assert desired(found) == (4,)


def test_the_band_says_nothing_in_topologies_without_encoder_pods() -> None:
    found = decided([even(60, 2, stage=StageKey(StageName.GROUP))], {StageKey(StageName.GROUP): QUICK}, **band(50, 200))
    assert desired(found) == (6,)


# The budget


def test_all_stages_together_stay_within_the_gpu_budget() -> None:
    found = deployment(even(90, 3, stage=E), even(90, 3, stage=P), gpu_budget=10)
    assert desired(found) == (5, 5)
    assert {d.reason for d in found.values()} == {ScalingReason.GPU_BUDGET}
    assert "10 GPUs" in found[E].message


def test_gpus_of_another_revision_limit_added_replicas_but_take_no_existing_ones() -> None:
    found = deployment(even(90, 3, stage=E), even(90, 3, stage=P), gpu_budget=10, gpus_beside=2)
    assert desired(found) == (4, 4)
    found = deployment(even(90, 3, stage=E), even(90, 3, stage=P), gpu_budget=10, gpus_beside=9)
    assert desired(found) == (3, 3)


def test_replicas_that_exist_are_not_taken_to_feed_another_stage() -> None:
    found = deployment(even(10, 1, stage=E), even(160, 8, stage=P), gpu_budget=9)
    assert desired(found) == (1, 8)


def test_what_one_stage_gives_back_another_may_use() -> None:
    found = deployment(even(10, 6, stage=E), even(80, 4, stage=P), gpu_budget=10)
    assert desired(found) == (1, 8)


def test_gpus_of_each_replica_and_of_stages_that_are_not_scaled_count() -> None:
    frontend = even(5, 3, stage=F, gpus_per_replica=0)
    found = decided(
        [frontend, even(1, 2, stage=E), even(80, 2, stage=P, gpus_per_replica=4)], {P: QUICK}, gpu_budget=14
    )
    assert desired(found) == (3,)


REFUSAL = PodRefusal(message="exceeded quota: gpus", seconds=REFUSED_AFTER_SECONDS, by_quota=True)
CANNOT_RUN: dict[str, dict[str, Any]] = {
    "refused": {"replicas": 6, "refusal": REFUSAL},
    "without a node": {
        "pods": (*pods([1.0] * 2, at=1000.0), *(PodLoad(name=f"u{n}", ready=False, scheduled=False) for n in range(4))),
        "replicas": 6,
        "unschedulable_seconds": 1200.0,
    },
}
MAYBE_SOON: dict[str, dict[str, Any]] = {
    "refused for a moment": {"replicas": 6, "refusal": replace(REFUSAL, seconds=REFUSED_AFTER_SECONDS - 1)},
    "without a node for a moment": {**CANNOT_RUN["without a node"], "unschedulable_seconds": 1199.0},
    "a node is coming": {**CANNOT_RUN["without a node"], "nodes": NodeSupply.COMING},
    "pods terminate": {**CANNOT_RUN["refused"], "terminating": 1},
    "starting": {"starting": 4},
}
UNSCALED: dict[str, Autoscaling | None] = {
    "fixed": None,
    "External": Autoscaling(mode=AutoscalingMode.EXTERNAL, max_replicas=20),
}


@pytest.mark.parametrize("chosen", UNSCALED.values(), ids=UNSCALED)
@pytest.mark.parametrize("shortage", CANNOT_RUN.values(), ids=CANNOT_RUN)
def test_pods_that_cannot_run_of_a_stage_that_is_not_scaled_here_use_no_budget(
    shortage: dict[str, Any], chosen: Autoscaling | None
) -> None:
    encoders = seen([1.0] * 2, stage=E, **shortage)
    found = decided([encoders, even(90, 2, stage=P)], {E: chosen, P: QUICK}, gpu_budget=8)
    assert desired(found) == (6,)


@pytest.mark.parametrize("changes", MAYBE_SOON.values(), ids=MAYBE_SOON)
def test_pods_of_a_stage_that_is_not_scaled_here_use_the_budget_while_they_may_still_run(
    changes: dict[str, Any],
) -> None:
    encoders = seen([1.0] * 2, stage=E, **changes)
    found = decided([encoders, even(90, 2, stage=P)], {P: QUICK}, gpu_budget=8)
    assert desired(found) == (2,)


def test_gpus_that_have_just_become_free_belong_to_the_pods_that_wait_for_them() -> None:
    refused = {"stage": E, **CANNOT_RUN["refused"]}
    states, granted = {}, []
    for at in (1000.0, 1015.0, 1000.0 + FREED_AFTER_SECONDS):
        encoders = seen([1.0] * 2, at=at, terminating=int(at == 1000.0), **refused)
        observations = [encoders, even(90, 2, stage=P, at=at)]
        states, decisions = decide_all(states, observations, {P: QUICK}, Scaling(gpu_budget=8))
        granted.append(decisions[0].desired)
    assert granted == [2, 2, 6]


def test_the_band_counts_only_encoders_that_can_run() -> None:
    encoders = seen([1.0] * 2, stage=E, **CANNOT_RUN["refused"])
    assert desired(decided([encoders, even(2, 2, stage=P)], {P: QUICK}, **band(50, 100))) == (2,)


def test_gpus_of_leaving_pods_delay_growth_but_take_nothing_away() -> None:
    found = deployment(even(10, 1, stage=E, terminating=3), even(160, 6, stage=P), gpu_budget=8)
    assert desired(found) == (1, 6)


def test_a_budget_that_was_lowered_takes_replicas_away_but_never_the_minimum() -> None:
    assert desired(deployment(even(60, 6, stage=E), even(60, 6, stage=P), gpu_budget=6)) == (3, 3)
    kept = settings(behavior=AT_ONCE, min_replicas=4)
    found = decided([even(60, 6, stage=E), even(60, 6, stage=P)], {E: kept, P: kept}, gpu_budget=6)
    assert desired(found) == (4, 4)


@pytest.mark.parametrize("encoders_first", [True, False])
def test_the_order_of_the_stages_changes_nothing(encoders_first: bool) -> None:
    both = [even(60, 2, stage=E), even(130, 3, stage=P)]
    observations = both if encoders_first else both[::-1]
    found = decided(observations, {E: QUICK, P: QUICK}, gpu_budget=9, **band(20, 100))
    assert (found[E].desired, found[P].desired) == (4, 5)


def test_frontends_need_no_gpus_and_are_not_held_by_the_budget() -> None:
    found = decided([even(60, 2, stage=F, gpus_per_replica=0)], {F: QUICK}, gpu_budget=1)
    assert desired(found) == (6,)

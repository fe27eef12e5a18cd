"""The service level: which stage a latency is blamed on, and what it may do."""

from __future__ import annotations

import pytest

from epd_operator.api.v1alpha1.autoscaling import Scaling, ServiceLevel
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey
from epd_operator.scaling.decision import decide_all
from epd_operator.scaling.model import ScalingReason
from epd_operator.scaling.service_level import Latency, SloRisk, slo_risks
from epd_operator.scaling.state import StageState
from unit.scaling.builders import AT_ONCE, SCALING, decide, even, first, seen, settings

E, P = StageKey(StageName.ENCODER), StageKey(StageName.PD)
LEVEL = ServiceLevel(time_to_first_token_milliseconds=1000, inter_token_latency_milliseconds=50)
SLOW = SloRisk(violated=True, message="mean time to first token 1500 ms, allowed 1000 ms")
CLOSE = SloRisk(violated=False, message="mean time to first token 900 ms, allowed 1000 ms")


def blamed(latency: Latency, *stages: StageKey) -> dict[StageKey, bool]:
    found = slo_risks(latency, level=LEVEL, stages=stages or (E, P))
    return {stage: slo_risk.violated for stage, slo_risk in found.items()}


def test_a_slow_first_token_is_blamed_on_the_encoders_when_they_take_most_of_it() -> None:
    assert blamed(Latency(time_to_first_token=1.5, encode=1.0, pd_queue=0.3, prefill=0.2)) == {E: True}


def test_a_slow_first_token_is_blamed_on_pd_otherwise() -> None:
    assert blamed(Latency(time_to_first_token=1.5, encode=0.4, pd_queue=0.8, prefill=0.3)) == {P: True}
    assert blamed(Latency(time_to_first_token=1.5)) == {P: True}


def test_where_no_request_ended_pd_has_what_the_encoders_leave_of_the_time_to_the_first_token() -> None:
    assert blamed(Latency(time_to_first_token=1.5, encode=0.2)) == {P: True}
    assert blamed(Latency(time_to_first_token=1.5, encode=1.3)) == {E: True}


def test_slow_tokens_are_blamed_on_pd() -> None:
    assert blamed(Latency(inter_token_latency=0.06, encode=9.0)) == {P: True}


@pytest.mark.parametrize("stage", [StageKey(StageName.WORKER), StageKey(StageName.GROUP)])
def test_where_one_stage_does_everything_it_is_to_blame(stage: StageKey) -> None:
    assert blamed(Latency(time_to_first_token=1.5, encode=1.4), StageKey(StageName.FRONTEND), stage) == {stage: True}


def test_a_latency_within_the_level_blames_nobody_but_close_to_it_is_a_risk() -> None:
    assert blamed(Latency(time_to_first_token=0.79, inter_token_latency=0.039)) == {}
    assert blamed(Latency(time_to_first_token=0.81)) == {P: False}


def test_without_a_level_or_a_measurement_nothing_is_asked() -> None:
    assert slo_risks(None, level=LEVEL, stages=(E, P)) == {}
    assert slo_risks(Latency(time_to_first_token=9), level=None, stages=(E, P)) == {}
    assert slo_risks(Latency(time_to_first_token=9), level=ServiceLevel(), stages=(E, P)) == {}


def test_a_violated_level_raises_the_stage_to_blame_alone() -> None:
    observations = [even(10, 2, stage=E), even(20, 2, stage=P)]
    latency = Latency(time_to_first_token=1.5, encode=1.0)
    _, decisions = decide_all(
        {}, observations, {E: settings(), P: settings()}, Scaling(), latency=latency, service_level=LEVEL
    )
    assert [d.desired for d in decisions] == [3, 2]
    assert decisions[0].reason is ScalingReason.SLO_VIOLATED
    assert "1500 ms, allowed 1000 ms" in decisions[0].message


def test_a_violated_level_raises_by_one_in_each_window() -> None:
    state, replicas, steps = StageState(), 2, []
    for n in range(61):
        at = 15.0 * n
        state, decision = decide(state, even(10 * replicas, replicas, at=at), settings(), SCALING, slo_risk=SLOW)
        if decision.desired > replicas:
            steps.append((at, decision.desired - replicas))
        replicas = decision.desired
    assert steps == [(0.0, 1), (300.0, 1), (600.0, 1), (900.0, 1)]


def test_a_violated_level_does_not_raise_while_a_pod_starts() -> None:
    assert first(seen([10, 10], starting=1), settings(), slo_risk=SLOW).desired == 3


def test_a_violated_level_does_not_raise_beyond_the_maximum() -> None:
    decision = first(even(20, 2), settings(max_replicas=2), slo_risk=SLOW)
    assert (decision.desired, decision.reason) == (2, ScalingReason.AT_MAXIMUM)


def test_a_stage_close_to_the_level_does_not_shrink() -> None:
    decision = first(even(5, 3), settings(behavior=AT_ONCE), slo_risk=CLOSE)
    assert (decision.desired, decision.reason) == (3, ScalingReason.SLO_AT_RISK)
    assert first(even(5, 3), settings(behavior=AT_ONCE)).desired == 1


def test_a_stage_close_to_the_level_grows_with_its_load_as_ever() -> None:
    assert first(even(50, 3), slo_risk=CLOSE).desired == 5


def test_a_latency_does_not_scale_a_stage_whose_load_is_unknown() -> None:
    assert first(seen([None, None]), slo_risk=SLOW).desired == 2


def test_a_number_that_violated_the_level_is_not_returned_to_for_six_windows() -> None:
    state, replicas, seen_at = StageState(), 2, {}
    for n in range(140):
        at = 15.0 * n
        slo_risk = SLOW if n == 0 else None
        state, decision = decide(state, even(18, replicas, at=at), settings(), SCALING, slo_risk=slo_risk)
        replicas = decision.desired
        seen_at[at] = replicas
    assert seen_at[0] == seen_at[6 * 300.0 - 15] == 3
    assert seen_at[6 * 300.0] == 2


def test_a_violation_while_the_load_asks_for_more_teaches_nothing() -> None:
    state, decision = decide(StageState(), even(50, 2), settings(), SCALING, slo_risk=SLOW)
    assert (decision.desired, state.latency_floor) == (5, None)
    state, decision = decide(StageState(), seen([10, 10], starting=2), settings(), SCALING, slo_risk=SLOW)
    assert (decision.desired, state.latency_floor) == (4, None)

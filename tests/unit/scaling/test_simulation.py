"""The operator's decisions against a stock HPA, in simulated hours."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from simulation.cluster import Stage
from simulation.engine import ENCODER, PD, Finished
from simulation.report import LATE_TOLERANCE, TOLERANCE, no_worse
from simulation.scalers import OperatorScaler
from simulation.scenarios import HPA, OPERATOR, SCENARIOS, WITH_BAND, WITH_LEVEL, play, played

every_scenario = pytest.mark.parametrize("name", SCENARIOS)


@every_scenario
@pytest.mark.parametrize("kind", [OPERATOR, WITH_BAND])
def test_a_stage_that_grew_does_not_shrink_within_the_window(name: str, kind: str) -> None:
    for stage in (ENCODER, PD):
        for (at, change), (following, next_change) in itertools.pairwise(played(name, kind).changes(stage)):
            assert not (change > 0 > next_change) or following - at >= 300


@every_scenario
def test_the_operator_turns_round_no_more_often_than_hpa(name: str) -> None:
    def turns(chosen: str) -> int:
        changes = [played(name, chosen).changes(stage) for stage in (ENCODER, PD)]
        return sum(a[1] * b[1] < 0 for series in changes for a, b in itertools.pairwise(series))

    assert turns(OPERATOR) <= turns(HPA) + 1


@every_scenario
def test_overshoot_is_bounded_by_that_of_hpa(name: str) -> None:
    for stage in (ENCODER, PD):
        assert played(name, OPERATOR).peak(stage) <= played(name, HPA).peak(stage)


def test_slow_changes_of_load_are_followed_with_little_overshoot() -> None:
    needed = 6.0 / (6 / 8)
    assert played("diurnal", OPERATOR).peak(PD) <= 1.5 * needed


class Watched(OperatorScaler):
    """Notes the load of each stage together with what is decided."""

    def __call__(self, stages: Mapping[str, Stage], now: float, waits: list[Finished]) -> dict[str, int]:
        loads = {name: sum(pod.measured or 0.0 for pod in stage.staying()) for name, stage in stages.items()}
        before = {name: stage.wanted for name, stage in stages.items()}
        after = super().__call__(stages, now, waits)
        self.seen = [*getattr(self, "seen", []), *((s.model, loads[n], before[n], after[n]) for n, s in stages.items())]
        return after


@pytest.mark.parametrize("name", ["step", "spike", "mix shift", "cold starts"])
def test_a_stage_reacts_in_the_interval_in_which_its_metric_shows_the_load(name: str) -> None:
    scaler = Watched(SCENARIOS[name].models)
    play(name, scaler)
    overloads = [
        (before, after)
        for model, load, before, after in scaler.seen
        if load > 1.1 * before * model.target and before < model.maximum
    ]
    assert overloads
    assert all(after > before for before, after in overloads)


def test_while_no_metrics_come_nothing_shrinks() -> None:
    start, end = SCENARIOS["lost metrics"].metrics_lost
    for stage in (ENCODER, PD):
        assert [c for c in played("lost metrics", OPERATOR).changes(stage) if start <= c[0] < end and c[1] < 0] == []


def test_one_silent_pod_blocks_neither_growing_nor_shrinking() -> None:
    result = played("silent pod", OPERATOR)
    assert result.peak(PD) >= 8
    assert result.of(PD)[-1][1] <= 5


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, OPERATOR) for name in SCENARIOS), *((name, WITH_LEVEL) for name in ("spike", "bursts", "lax target"))],
)
def test_the_operator_is_never_worse_than_hpa_without_being_better(name: str, kind: str) -> None:
    ours, theirs = played(name, kind), played(name, HPA)
    assert no_worse(
        (ours.violations, ours.gpu_seconds),
        (theirs.violations, theirs.gpu_seconds),
    ), (ours.violations, ours.gpu_seconds, theirs.violations, theirs.gpu_seconds)


def test_the_golden_rule_finds_what_it_should() -> None:
    assert not no_worse((0.03, 1000), (0.02, 1000))
    assert not no_worse((0.02, 1100), (0.02, 1000))
    assert not no_worse((0.03, 1100), (0.02, 1000))
    assert no_worse((0.02 + LATE_TOLERANCE, 1000 * (1 + TOLERANCE)), (0.02, 1000))
    assert no_worse((0.01, 1100), (0.02, 1000))
    assert no_worse((0.03, 900), (0.02, 1000))


def test_a_run_is_repeated_exactly() -> None:
    first, second = played("mix shift", OPERATOR), play("mix shift", OperatorScaler(SCENARIOS["mix shift"].models))
    assert (first.finished, first.gpu_seconds, first.replicas) == (second.finished, second.gpu_seconds, second.replicas)


def test_a_band_lets_pd_start_with_the_encoders_instead_of_after_them() -> None:
    with_band, hpa = played("mix shift", WITH_BAND), played("mix shift", HPA)
    assert with_band.violations < hpa.violations / 2
    assert with_band.gpu_seconds < hpa.gpu_seconds


def test_a_service_level_mends_a_target_that_is_too_high() -> None:
    with_level, hpa = played("lax target", WITH_LEVEL), played("lax target", HPA)
    assert with_level.violations < hpa.violations / 2
    assert with_level.gpu_seconds < hpa.gpu_seconds

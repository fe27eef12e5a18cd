"""What holds for any history of any stage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import settings as tuned
from hypothesis import strategies as st

from epd_operator.api.v1alpha1.autoscaling import Autoscaling, RatioBand, Scaling
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey
from epd_operator.scaling.decision import decide_all
from epd_operator.scaling.model import PodLoad, StageObservation
from epd_operator.scaling.service_level import SloRisk
from epd_operator.scaling.state import StageState
from unit.scaling.builders import decide

E, P = StageKey(StageName.ENCODER), StageKey(StageName.PD)
SCALING = Scaling()
quick = tuned(max_examples=75, deadline=None)

windows = st.sampled_from([None, 0, 30, 300])
policies = st.none() | st.lists(
    st.builds(
        lambda kind, value, period: {"type": kind, "value": value, "periodSeconds": period},
        st.sampled_from(["Pods", "Percent"]),
        st.integers(1, 120),
        st.sampled_from([15, 60]),
    ),
    min_size=1,
    max_size=3,
)
directions = st.fixed_dictionaries(
    {
        "stabilizationWindowSeconds": windows,
        "tolerancePercent": st.integers(0, 30),
        "selectPolicy": st.sampled_from(["Max", "Min", "Disabled"]),
        "policies": policies,
    }
).map(lambda rules: {name: value for name, value in rules.items() if value is not None})
"""Rules of one direction; what is unset gets the default of the schema."""


@st.composite
def autoscalings(draw: st.DrawFn) -> Autoscaling:
    """Any legal settings."""
    low = draw(st.integers(1, 6))
    kinds = draw(st.sampled_from([("Requests",), ("KVCacheUsage",), ("Requests", "KVCacheUsage")]))
    return Autoscaling.model_validate(
        {
            "minReplicas": low,
            "maxReplicas": low + draw(st.integers(0, 20)),
            "metrics": [{"type": kind, "targetPerReplica": draw(st.integers(1, 100))} for kind in kinds],
            "behavior": {"scaleUp": draw(directions), "scaleDown": draw(directions)},
        }
    )


@st.composite
def observations(draw: st.DrawFn, *, at: float = 0.0, stage: StageKey = P, shape: int | None = None) -> Any:
    """Any stage; some pods silent, stale, starting or without a node."""
    count = draw(st.integers(0, 8)) if shape is None else shape
    pods = tuple(
        PodLoad(
            name=f"p{number}",
            ready=draw(st.booleans()) or draw(st.booleans()),
            requests=draw(st.none() | st.floats(0, 300)),
            kv_cache_percent=draw(st.none() | st.floats(0, 100)),
            measured_at=draw(st.sampled_from([None, at, at, at, at - 30, at - 100])),
            scheduled=draw(st.booleans()),
        )
        for number in range(count)
    )
    return StageObservation(
        stage=stage,
        at=at,
        replicas=draw(st.integers(max(1, count - 1), count + 2)),
        pods=pods,
        unschedulable_seconds=draw(st.sampled_from([None, None, 20.0, 400.0])),
        rolling_out=draw(st.booleans()),
        terminating=draw(st.integers(0, 2)),
        gpus_per_replica=draw(st.integers(0, 4)),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[StageObservation]:
    """A few observations, one after the other."""
    at, found = 0.0, []
    for _ in range(draw(st.integers(1, 5))):
        found.append(draw(observations(at=at)))
        at += draw(st.sampled_from([15.0, 60.0, 290.0, 301.0]))
    return found


pressing = st.none() | st.builds(SloRisk, violated=st.booleans(), message=st.just("slow"))


@quick
@given(histories(), autoscalings(), pressing)
def test_bounds_are_always_kept(history: list[StageObservation], chosen: Autoscaling, slo_risk: SloRisk | None) -> None:
    state = StageState()
    for observation in history:
        state, decision = decide(state, observation, chosen, SCALING, slo_risk=slo_risk)
        assert chosen.min_replicas <= decision.desired <= chosen.max_replicas
        assert decision.message


@quick
@given(histories(), autoscalings(), st.integers(0, 7), st.floats(0, 500), st.floats(0, 60))
def test_more_load_never_means_fewer_replicas(
    history: list[StageObservation], chosen: Autoscaling, which: int, requests: float, cache: float
) -> None:
    state = StageState()
    for observation in history[:-1]:
        state, _ = decide(state, observation, chosen, SCALING)
    last = history[-1]

    def heavier(number: int, pod: PodLoad) -> PodLoad:
        if number != which % max(1, len(last.pods)):
            return pod
        more = None if pod.requests is None else pod.requests + requests
        fuller = None if pod.kv_cache_percent is None else pod.kv_cache_percent + cache
        return replace(pod, requests=more, kv_cache_percent=fuller)

    loaded = replace(last, pods=tuple(heavier(n, pod) for n, pod in enumerate(last.pods)))
    assert decide(state, loaded, chosen, SCALING)[1].desired >= decide(state, last, chosen, SCALING)[1].desired


@quick
@given(observations(), autoscalings(), st.sampled_from(["missing", "stale"]))
def test_without_data_the_stage_is_held_within_its_bounds(
    observation: StageObservation, chosen: Autoscaling, how: str
) -> None:
    measured = -100.0 if how == "stale" else None
    blind = replace(
        observation,
        pods=tuple(replace(pod, measured_at=measured) for pod in observation.pods),
        unschedulable_seconds=None,
    )
    _, decision = decide(StageState(), blind, chosen, SCALING)
    assert decision.desired == min(max(observation.replicas, chosen.min_replicas), chosen.max_replicas)


@quick
@given(histories(), autoscalings())
def test_the_same_history_gives_the_same_decisions(history: list[StageObservation], chosen: Autoscaling) -> None:
    def replay() -> list[Any]:
        state, found = StageState(), []
        for observation in history:
            state, decision = decide(state, observation, chosen, SCALING)
            found.append((state, decision))
        return found

    assert replay() == replay()


@tuned(max_examples=60, deadline=None)
@given(
    load=st.floats(0, 150),
    replicas=st.integers(1, 20),
    start_ticks=st.integers(0, 30),
    up=windows,
    down=windows,
    tolerance=st.integers(0, 30),
)
def test_under_constant_load_a_stage_never_turns_round(
    load: float, replicas: int, start_ticks: int, up: int | None, down: int | None, tolerance: int
) -> None:
    rules = {"tolerancePercent": tolerance}
    windows = {"scaleUp": up, "scaleDown": down}
    chosen = Autoscaling.model_validate(
        {
            "maxReplicas": 20,
            "metrics": [{"type": "Requests", "targetPerReplica": 10}],
            "behavior": {
                direction: rules if window is None else {"stabilizationWindowSeconds": window, **rules}
                for direction, window in windows.items()
            },
        }
    )
    state, born = StageState(), [-1000] * replicas
    signs = set()
    for tick in range(80):
        ready = [b + start_ticks <= tick for b in born]
        share = load / max(1, sum(ready))
        pods = tuple(
            PodLoad(name=f"p{n}", ready=r, requests=share if r else None, measured_at=15.0 * tick)
            for n, r in enumerate(ready)
        )
        seen = StageObservation(stage=P, at=15.0 * tick, replicas=len(born), pods=pods)
        state, decision = decide(state, seen, chosen, SCALING)
        signs.add((decision.desired > len(born)) - (decision.desired < len(born)))
        born = [*born, *[tick] * (decision.desired - len(born))][: decision.desired]
    assert not {1, -1} <= signs


bands = st.integers(1, 300).flatmap(
    lambda low: st.builds(RatioBand, min_percent=st.just(low), max_percent=st.integers(low, 1000))
)


@quick
@given(observations(stage=E), observations(stage=P), autoscalings(), autoscalings(), bands)
def test_the_band_is_kept_whenever_raising_the_lagging_stage_can_keep_it(
    encoders: StageObservation, workers: StageObservation, of_encoder: Autoscaling, of_pd: Autoscaling, band: RatioBand
) -> None:
    encoders, workers = (replace(o, unschedulable_seconds=None) for o in (encoders, workers))
    chosen = {E: of_encoder, P: of_pd}
    alone = [decide(StageState(), o, chosen[o.stage], SCALING)[1].desired for o in (encoders, workers)]
    _, decisions = decide_all({}, [encoders, workers], chosen, Scaling(encoders_per_pd=band))
    together = [decision.desired for decision in decisions]
    assert together[0] >= alone[0]
    assert together[1] >= alone[1]
    assert together[0] == alone[0] or together[1] == alone[1]
    fits = [
        (e, p)
        for e in range(alone[0], of_encoder.max_replicas + 1)
        for p in range(alone[1], of_pd.max_replicas + 1)
        if (e == alone[0] or p == alone[1]) and in_band(e, p, band)
    ]
    if fits:
        assert tuple(together) == min(fits, key=sum)
    else:
        assert not in_band(*together, band)


def in_band(encoders: int, workers: int, band: RatioBand) -> bool:
    return workers * band.min_percent <= encoders * 100 <= workers * band.max_percent


@quick
@given(
    observations(stage=E), observations(stage=P), autoscalings(), autoscalings(), bands, st.none() | st.integers(1, 60)
)
def test_growth_never_exceeds_the_budget_and_bounds_are_kept_under_all_rules_together(
    encoders: StageObservation,
    workers: StageObservation,
    of_encoder: Autoscaling,
    of_pd: Autoscaling,
    band: RatioBand,
    budget: int | None,
) -> None:
    seen = {E: encoders, P: workers}
    chosen = {E: of_encoder, P: of_pd}
    _, decisions = decide_all({}, [encoders, workers], chosen, Scaling(encoders_per_pd=band, gpu_budget=budget))
    for decision in decisions:
        assert chosen[decision.stage].min_replicas <= decision.desired <= chosen[decision.stage].max_replicas
    used = sum(d.desired * seen[d.stage].gpus_per_replica for d in decisions)
    least = sum(chosen[s].min_replicas * seen[s].gpus_per_replica for s in seen)
    if budget is not None:
        assert used <= max(budget, least)

"""Nodes that take long to come, in virtual time: with and without Events of a node autoscaler."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from epd_operator.api.v1alpha1.autoscaling import Scaling
from epd_operator.autoscaler.nodes import VALID_FOR, node_supply
from epd_operator.objects.pod_events import PodEvent
from epd_operator.scaling.capacity import NO_NODE_AFTER_SECONDS
from epd_operator.scaling.model import Decision, NodeSupply, PodLoad, ScalingReason
from epd_operator.scaling.state import StageState
from unit.scaling.builders import decide, pods, seen, settings

START = datetime(2026, 1, 1, tzinfo=UTC)
TICK = 15


def event(reason: str, *, component: str = "cluster-autoscaler", at: float = 0) -> PodEvent:
    return PodEvent(pod="new", reason=reason, component=component, last=START + timedelta(seconds=at))


def replay(*events: PodEvent, node_after: float | None, seconds: float, **scaling: int) -> list[Decision]:
    """A stage of one pod with load for two; the second pod gets its node after so many seconds, or never."""
    state, replicas, asked, found = StageState(), 1, 0.0, []
    for at in range(0, int(seconds), TICK):
        waited = at - asked if replicas == 2 else 0.0
        has_node = node_after is not None and waited >= node_after
        new = [PodLoad(name="new", ready=has_node, scheduled=has_node, requests=5.0, measured_at=float(at))]
        loads = (*pods([20.0 - 10.0 * has_node], at=at), *(new if replicas == 2 else ()))
        known = [e for e in events if e.last <= START + timedelta(seconds=at)]
        observation = seen(
            [],
            at=float(at),
            replicas=replicas,
            pods=loads,
            unschedulable_seconds=waited if replicas == 2 and not has_node else None,
            nodes=node_supply([known], now=START + timedelta(seconds=at)),
        )
        state, decision = decide(state, observation, settings(), Scaling.model_validate(scaling))
        if replicas == 1 and decision.desired == 2:
            asked = at + TICK
        replicas = decision.desired
        found.append(decision)
    return found


@pytest.mark.parametrize("words", [("cluster-autoscaler", "TriggeredScaleUp"), ("karpenter", "Nominated")])
def test_a_node_that_comes_after_12_minutes_is_waited_for_when_an_autoscaler_reports_it(words: tuple[str, str]) -> None:
    component, reason = words
    coming = event(reason, component=component, at=30)
    decisions = replay(coming, node_after=720, seconds=1500, unschedulable_after_seconds=300)
    assert {d.desired for d in decisions} == {2}


def test_a_node_that_comes_after_12_minutes_is_waited_for_by_default_without_events() -> None:
    assert {d.desired for d in replay(node_after=720, seconds=1500)} == {2}


def test_without_events_and_with_a_short_time_the_pods_are_given_up_before_the_node_comes() -> None:
    decisions = replay(node_after=720, seconds=1500, unschedulable_after_seconds=300)
    assert 1 in {d.desired for d in decisions}


def test_a_pool_that_gets_no_node_falls_back_soon_when_the_autoscaler_reports_it() -> None:
    decisions = replay(event("NotTriggerScaleUp", at=30), node_after=None, seconds=600)
    first = next(n for n, d in enumerate(decisions) if n and d.desired == 1)
    assert NO_NODE_AFTER_SECONDS <= first * TICK <= NO_NODE_AFTER_SECONDS + 2 * TICK
    assert decisions[first].reason is ScalingReason.UNSCHEDULABLE


def test_a_node_that_was_reported_and_never_came_is_not_waited_for_for_ever() -> None:
    decisions = replay(event("TriggeredScaleUp"), node_after=None, seconds=3600, unschedulable_after_seconds=300)
    assert [d.desired for d in decisions[: int(VALID_FOR.total_seconds() / TICK)]] == [2] * 80
    assert 1 in {d.desired for d in decisions}


def test_the_last_word_about_a_pod_counts_and_one_node_for_any_pod_is_enough() -> None:
    coming, none = event("TriggeredScaleUp", at=0), event("NotTriggerScaleUp", at=60)
    now = START + timedelta(seconds=90)
    assert node_supply([[coming, none]], now=now) is NodeSupply.NONE
    assert node_supply([[coming, none], [coming]], now=now) is NodeSupply.COMING
    assert node_supply([[]], now=now) is NodeSupply.UNKNOWN


def test_the_same_words_of_another_component_say_nothing_about_nodes() -> None:
    scheduler = event("FailedScheduling", component="default-scheduler")
    kubelet = event("Nominated", component="kubelet")
    assert node_supply([[scheduler, kubelet]], now=START) is NodeSupply.UNKNOWN


def test_an_event_without_a_time_or_from_the_far_future_is_not_used() -> None:
    timeless = PodEvent(pod="new", reason="TriggeredScaleUp", component="cluster-autoscaler")
    assert node_supply([[timeless, event("TriggeredScaleUp", at=10**6)]], now=START) is NodeSupply.UNKNOWN

"""Stabilization windows and step policies, as in HorizontalPodAutoscaler v2."""

from __future__ import annotations

import math
from collections.abc import Iterable

from epd_operator.api.v1alpha1.autoscaling import Behavior, PolicySelect, PolicyType, ScalingRules
from epd_operator.scaling.state import Recommendation, ScaleEvent


def stabilized(
    needed: int,
    *,
    current: int,
    past: Iterable[Recommendation],
    at: float,
    behavior: Behavior,
    panic: bool = False,
) -> int:
    """The stabilized number of replicas.

    A stage is scaled up at most to the smallest recommendation of the scale-up window, and scaled down at most to the
    largest recommendation of the scale-down window.

    Args:
        needed: replicas that the load needs now.
        current: replicas now.
        past: earlier recommendations.
        at: now.
        behavior: the windows.
        panic: whether to ignore the scale-up window.
    """
    smallest = largest = needed
    for earlier in past:
        age = at - earlier.at
        if age < behavior.scale_up.stabilization_window_seconds and not panic:
            smallest = min(smallest, earlier.replicas)
        if age < behavior.scale_down.stabilization_window_seconds:
            largest = max(largest, earlier.replicas)
    return min(max(current, smallest), largest)


def highest_allowed(current: int, *, events: Iterable[ScaleEvent], at: float, rules: ScalingRules) -> int:
    """The most replicas that the policies for scaling up allow now."""
    if rules.select_policy is PolicySelect.DISABLED:
        return current
    limits = []
    for policy in rules.policies:
        start = current - _change_within(policy.period_seconds, events=events, at=at)
        percent = math.ceil(start * (100 + policy.value) / 100)
        limits.append(start + policy.value if policy.type is PolicyType.PODS else percent)
    return max(current, max(limits) if rules.select_policy is PolicySelect.MAX else min(limits))


def lowest_allowed(current: int, *, events: Iterable[ScaleEvent], at: float, rules: ScalingRules) -> int:
    """The fewest replicas that the policies for scaling down allow now."""
    if rules.select_policy is PolicySelect.DISABLED:
        return current
    limits = []
    for policy in rules.policies:
        start = current - _change_within(policy.period_seconds, events=events, at=at)
        percent = math.floor(start * (100 - policy.value) / 100)
        limits.append(start - policy.value if policy.type is PolicyType.PODS else percent)
    return max(0, min(current, min(limits) if rules.select_policy is PolicySelect.MAX else max(limits)))


def _change_within(period: float, *, events: Iterable[ScaleEvent], at: float) -> int:
    """Replicas added within the last seconds, minus removed ones."""
    return sum(event.change for event in events if at - event.at < period)

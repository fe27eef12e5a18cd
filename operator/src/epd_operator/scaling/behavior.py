"""Stabilisation windows and step policies, as HorizontalPodAutoscaler v2 has them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from epd_operator.api.v1alpha1.autoscaling import Behavior, PolicySelect, PolicyType, ScalingRules
from epd_operator.scaling.state import Recommendation, ScaleEvent


def stabilised(
    wanted: int,
    *,
    current: int,
    past: Iterable[Recommendation],
    at: float,
    behavior: Behavior,
    panic: bool = False,
) -> int:
    """The most cautious recommendation: the smallest of the up window, the largest of the down window.

    Args:
        wanted: what the load asks for now.
        current: replicas now.
        past: earlier recommendations.
        at: now.
        behavior: the windows.
        panic: growing does not wait for its window.
    """
    lowest = highest = wanted
    for earlier in past:
        age = at - earlier.at
        if age < behavior.scale_up.stabilization_window_seconds and not panic:
            lowest = min(lowest, earlier.replicas)
        if age < behavior.scale_down.stabilization_window_seconds:
            highest = max(highest, earlier.replicas)
    return min(max(current, lowest), highest)


def highest_allowed(current: int, *, events: Iterable[ScaleEvent], at: float, rules: ScalingRules) -> int:
    """Most replicas that the policies of growing allow now."""
    if rules.select_policy is PolicySelect.DISABLED:
        return current
    limits = []
    for policy in rules.policies:
        start = current - _changed(events, at=at, period=policy.period_seconds)
        percent = math.ceil(start * (100 + policy.value) / 100)
        limits.append(start + policy.value if policy.type is PolicyType.PODS else percent)
    return max(current, max(limits) if rules.select_policy is PolicySelect.MAX else min(limits))


def lowest_allowed(current: int, *, events: Iterable[ScaleEvent], at: float, rules: ScalingRules) -> int:
    """Fewest replicas that the policies of shrinking allow now."""
    if rules.select_policy is PolicySelect.DISABLED:
        return current
    limits = []
    for policy in rules.policies:
        start = current - _changed(events, at=at, period=policy.period_seconds)
        percent = math.floor(start * (100 - policy.value) / 100)
        limits.append(start - policy.value if policy.type is PolicyType.PODS else percent)
    return max(0, min(current, min(limits) if rules.select_policy is PolicySelect.MAX else max(limits)))


def _changed(events: Iterable[ScaleEvent], *, at: float, period: float) -> int:
    """Replicas added within the period, less those removed."""
    return sum(event.change for event in events if at - event.at < period)

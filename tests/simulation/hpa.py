"""HorizontalPodAutoscaler v2 with a Pods metric and default behavior, by the documented algorithm.

Pods that are Pending are unready; running pods without a metric are missing. The ratio is that of pods with a metric.
Missing pods count as loaded to the target when scaling down, and as idle when scaling up; unready pods count as idle
when scaling up. If that reverses the direction, or the result is within the tolerance of 10 %, nothing happens. When
scaling down, the largest recommendation of the last 300 s counts. Scaling up is limited to the larger of 4 pods and
100 % in 15 s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

TOLERANCE = 0.1
DOWN_WINDOW = 300.0
PERIOD = 15.0


@dataclass(frozen=True)
class HpaPod:
    """A pod as HPA sees it: whether it is Pending, and its metric; None where there is none."""

    pending: bool
    value: float | None


@dataclass
class Hpa:
    """One HPA object with its earlier recommendations and changes."""

    target: float
    minimum: int
    maximum: int
    recommendations: list[tuple[float, int]] = field(default_factory=list)
    events: list[tuple[float, int]] = field(default_factory=list)

    def __call__(self, pods: Sequence[HpaPod], current: int, now: float) -> int:
        """Replicas from now on."""
        if not self.recommendations:
            self.recommendations.append((now, current))
        proposed = recommended(pods, current=current, target=self.target)
        if proposed is None:
            return current
        desired = self._stabilized(proposed, current=current, now=now)
        desired = self._limited(desired, current=current, now=now)
        if desired != current:
            self.events.append((now, desired - current))
        return desired

    def _stabilized(self, proposed: int, *, current: int, now: float) -> int:
        self.recommendations = [r for r in self.recommendations if r[0] > now - DOWN_WINDOW]
        highest = max([proposed, *(replicas for _, replicas in self.recommendations)])
        self.recommendations.append((now, proposed))
        return min(max(current, proposed), highest)

    def _limited(self, desired: int, *, current: int, now: float) -> int:
        self.events = [e for e in self.events if e[0] > now - PERIOD]
        start = current - sum(change for _, change in self.events)
        fastest = max(current, start + 4, 2 * start)
        return max(self.minimum, min(desired, fastest, self.maximum))


def recommended(pods: Sequence[HpaPod], *, current: int, target: float) -> int | None:
    """The replicas for the metric; None where no pod has the metric."""
    values = [pod.value for pod in pods if pod.value is not None and not pod.pending]
    unready = sum(pod.pending for pod in pods)
    missing = len(pods) - len(values) - unready
    if not values:
        return None
    ratio = sum(values) / (len(values) * target)
    scales_up_with_unready = unready > 0 and ratio > 1
    if not scales_up_with_unready and not missing:
        return current if abs(ratio - 1) <= TOLERANCE else math.ceil(ratio * len(values))
    if missing:
        values += [target if ratio < 1 else 0.0] * missing
    if scales_up_with_unready:
        values += [0.0] * unready
    adjusted = sum(values) / (len(values) * target)
    if abs(adjusted - 1) <= TOLERANCE or (ratio < 1) != (adjusted < 1) or ratio == 1:
        return current
    proposed = math.ceil(adjusted * len(values))
    turned = (adjusted < 1 and proposed > current) or (adjusted > 1 and proposed < current)
    return current if turned else proposed

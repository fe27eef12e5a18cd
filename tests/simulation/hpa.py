"""HorizontalPodAutoscaler v2 with a Pods metric and default behavior, after the documented algorithm.

Pods that are Pending are unready; pods that run and give no metric are missing. The ratio is that of pods with a
metric; missing pods count as loaded to the target when shrinking and as idle when growing, unready ones as idle when
growing. If that turns the direction, or lands within the tolerance of 10 %, nothing happens. Of the recommendations of
the last 300 s the largest counts when shrinking; growing is limited to the larger of 4 pods and 100 % in 15 s.
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
    """One HPA object with its memory."""

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
        desired = self._stabilised(proposed, current=current, now=now)
        desired = self._limited(desired, current=current, now=now)
        if desired != current:
            self.events.append((now, desired - current))
        return desired

    def _stabilised(self, proposed: int, *, current: int, now: float) -> int:
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
    """What the metric asks for; None where no pod gives it."""
    values = [pod.value for pod in pods if pod.value is not None and not pod.pending]
    unready = sum(pod.pending for pod in pods)
    missing = len(pods) - len(values) - unready
    if not values:
        return None
    ratio = sum(values) / (len(values) * target)
    grows_with_unready = unready > 0 and ratio > 1
    if not grows_with_unready and not missing:
        return current if abs(ratio - 1) <= TOLERANCE else math.ceil(ratio * len(values))
    if missing:
        values += [target if ratio < 1 else 0.0] * missing
    if grows_with_unready:
        values += [0.0] * unready
    adjusted = sum(values) / (len(values) * target)
    if abs(adjusted - 1) <= TOLERANCE or (ratio < 1) != (adjusted < 1) or ratio == 1:
        return current
    proposed = math.ceil(adjusted * len(values))
    turned = (adjusted < 1 and proposed > current) or (adjusted > 1 and proposed < current)
    return current if turned else proposed

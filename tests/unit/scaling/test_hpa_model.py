"""The HPA that the operator is compared with decides as Kubernetes documents and tests it."""

from __future__ import annotations

import pytest

from simulation.hpa import Hpa, HpaPod, recommended


def ready(*values: float | None) -> list[HpaPod]:
    return [HpaPod(pending=False, value=value) for value in values]


PENDING = HpaPod(pending=True, value=None)


@pytest.mark.parametrize(
    ("pods", "wanted"),
    [
        (ready(20, 10, 30), 4),  # the mean of 20 against 15 raises three to four
        (ready(20, 10, 12), 3),  # 14 against 15 is within the tolerance
        (ready(12, 12, 12, 12, 12), 4),
        (ready(30, 10), 3),
        ([*ready(20, 10, 30), PENDING], 4),  # an unready pod counts as idle: 15 in the mean, within the tolerance
        ([*ready(40, 40), PENDING], 6),
        (ready(20, None), 2),  # a missing pod counts as idle and turns the direction: nothing happens
        (ready(5, 5, 5, None), 2),  # a missing pod counts as loaded to its target
        (ready(None, None), None),
        ([*ready(5, 5), PENDING], 1),
    ],
)
def test_the_recommendation_is_that_of_the_replica_calculator(pods: list[HpaPod], wanted: int | None) -> None:
    assert recommended(pods, current=len(pods), target=15) == wanted


def test_shrinking_waits_for_the_window_and_growing_does_not() -> None:
    hpa = Hpa(target=10, minimum=1, maximum=20)
    seen = [hpa(ready(*[2.0] * 5), 5, 15.0 * n) for n in range(21)]
    assert seen == [5] * 20 + [1]
    assert hpa(ready(20), 1, 315) == 2


def test_growing_is_limited_to_four_pods_or_a_doubling_in_fifteen_seconds() -> None:
    hpa = Hpa(target=10, minimum=1, maximum=50)
    assert hpa(ready(500), 1, 0) == 5
    assert hpa(ready(*[100.0] * 5), 5, 5) == 5
    assert hpa(ready(*[100.0] * 5), 5, 20) == 10


def test_without_metrics_it_holds_and_it_keeps_its_bounds() -> None:
    hpa = Hpa(target=10, minimum=2, maximum=4)
    assert hpa(ready(None, None, None), 3, 0) == 3
    assert hpa(ready(100, 100, 100), 3, 15) == 4

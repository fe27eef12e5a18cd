"""Token buckets, in virtual time."""

from __future__ import annotations

from epd_operator.telemetry.event_recorder import Rate, RateLimit


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def limit(clock: Clock, *, capacity: int = 100) -> RateLimit:
    return RateLimit(Rate(burst=3, every=10.0), clock=clock, capacity=capacity)


def allowed(limited: RateLimit, key: str, *, tries: int = 10) -> int:
    return sum(limited.allow(key) for _ in range(tries))


def test_a_burst_is_allowed_and_then_one_in_each_interval() -> None:
    clock = Clock()
    limited = limit(clock)
    assert allowed(limited, "a") == 3
    clock.now += 9
    assert allowed(limited, "a") == 0
    clock.now += 1
    assert allowed(limited, "a") == 1
    clock.now += 1000
    assert allowed(limited, "a") == 3


def test_keys_do_not_share_a_bucket() -> None:
    limited = limit(Clock())
    assert (allowed(limited, "a"), allowed(limited, "b")) == (3, 3)


def test_above_the_limit_the_least_recently_used_bucket_is_forgotten() -> None:
    limited = limit(Clock(), capacity=2)
    for key in ("a", "b", "a", "c"):
        allowed(limited, key)
    assert allowed(limited, "a") == 0
    assert allowed(limited, "b") == 3
    for number in range(1000):
        limited.allow(number)
    assert len(limited._buckets) == 2

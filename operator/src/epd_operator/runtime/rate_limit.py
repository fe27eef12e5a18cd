"""A token bucket for each of many keys, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Rate:
    """What is allowed.

    Attributes:
        burst: at once.
        every: seconds after which one more is allowed.
    """

    burst: int
    every: float


class RateLimit:
    """Of too many buckets, the one that was used least recently is forgotten."""

    def __init__(self, rate: Rate, *, clock: Callable[[], float], capacity: int) -> None:
        self._rate = rate
        self._clock = clock
        self._capacity = capacity
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def allow(self, key: Hashable) -> bool:
        """Take a token of the key, if there is one."""
        now = self._clock()
        tokens, since = self._buckets.pop(key, (float(self._rate.burst), now))
        tokens = min(float(self._rate.burst), tokens + (now - since) / self._rate.every)
        allowed = tokens >= 1
        self._buckets[key] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)
        return allowed

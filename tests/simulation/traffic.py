"""Synthetic traffic: every request with its work, drawn once from a seed, so that all autoscalers get the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Curve = Callable[[float], float]
"""A quantity over time in seconds."""


@dataclass(frozen=True)
class Request:
    """One request: its arrival and the time in each stage, in seconds; text has no encoder time."""

    at: float
    encode: float
    decode: float


def requests(
    *,
    seed: int,
    duration: float,
    rate: Curve,
    image_share: Curve,
    encode_seconds: float,
    decode_seconds: float,
) -> list[Request]:
    """Poisson arrivals of a varying rate (requests per second), by thinning."""
    source = random.Random(seed)
    highest = max(rate(second) for second in range(int(duration) + 1))
    found: list[Request] = []
    at = source.expovariate(highest)
    while at < duration:
        keep, image = source.random() * highest < rate(at), source.random() < image_share(at)
        encode, decode = _work(source, encode_seconds), _work(source, decode_seconds)
        if keep:
            found.append(Request(at=at, encode=encode if image else 0.0, decode=decode))
        at += source.expovariate(highest)
    return found


def _work(source: random.Random, mean: float) -> float:
    """Gamma distributed around the mean, with a coefficient of variation of one half."""
    return source.gammavariate(4.0, mean / 4.0)

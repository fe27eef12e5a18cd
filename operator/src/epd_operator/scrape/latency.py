"""Mean latencies over an interval, from counters of the frontends that only ever grow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Totals:
    """A histogram's totals since its process started."""

    seconds: float = 0.0
    count: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LatencyTotals:
    """One frontend's totals; None where they could not be read.

    Attributes:
        measured_at: when they were read.
        first_token: time to the first token, once per request.
        inter_token: time between two tokens, once per token.
    """

    measured_at: float
    first_token: Totals | None = None
    inter_token: Totals | None = None


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean and how many values it is made of."""

    milliseconds: float
    count: float


@dataclass(frozen=True, kw_only=True)
class MeanLatency:
    """Latencies that clients saw between two readings; None where there was no traffic or it could not be read.

    Attributes:
        measured_at: when the oldest of the later readings was made.
    """

    measured_at: float
    first_token: Mean | None = None
    inter_token: Mean | None = None


def mean_latency(earlier: Mapping[str, LatencyTotals], later: Mapping[str, LatencyTotals]) -> MeanLatency | None:
    """Mean over all frontends, by pod name, that both readings have; None where they share none.

    A frontend that is new in the later reading has no starting point: its totals may be those of many days.
    """
    pairs = [(earlier[pod], totals) for pod, totals in later.items() if pod in earlier]
    if not pairs:
        return None
    return MeanLatency(
        measured_at=min(after.measured_at for _, after in pairs),
        first_token=mean(growth(before.first_token, after.first_token) for before, after in pairs),
        inter_token=mean(growth(before.inter_token, after.inter_token) for before, after in pairs),
    )


def growth(before: Totals | None, after: Totals | None) -> Totals:
    """What a histogram gained between two readings; nothing where one of them is missing."""
    if before is None or after is None:
        return Totals()
    if after.count < before.count or after.seconds < before.seconds:
        # The process started anew, so everything it counted happened since.
        return after
    return Totals(seconds=after.seconds - before.seconds, count=after.count - before.count)


def mean(gains: Iterable[Totals]) -> Mean | None:
    """The mean of all values that were gained; None where there was not even one, which a count below 1 is not."""
    known = tuple(gains)
    count = sum(gain.count for gain in known)
    if count < 1:
        return None
    return Mean(milliseconds=1000 * sum(gain.seconds for gain in known) / count, count=count)

"""The estimator: what encoding on separate workers changes in the time of one request.

The formulas are those of the companion explainer to NVIDIA's article on EPD disaggregation (September 2026)::

    aggregated = encode + prefill + decode
    split      = encode + transfer + prefill + decode - queue saved
    gain       = (aggregated - split) / aggregated

Encode, prefill and decode are the same in both sums, so ``gain = (queue saved - transfer) / aggregated``. The estimate
knows nothing of contention, batching and different GPUs: it only says whether a test is worth its time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum

WORTH_TESTING_PERCENT = 10.0
"""A larger gain is worth a test with real traffic. Same source as the formulas."""

MAX_MS = 1e9
"""Longest time of a stage: 11 days."""


class Verdict(StrEnum):
    """What to do."""

    TEST = "worth a real test"
    STAY_AGGREGATED = "stay aggregated for now"


@dataclass(frozen=True, kw_only=True)
class StageTimes:
    """Mean times of one request, in milliseconds.

    Attributes:
        encode: vision encoder.
        prefill: prefill, without encode.
        decode: all output tokens.
        transfer: embeddings from the encoder to the PD worker, if they are split.
        queue_saved: time that the request waits less, because encodes no longer delay prefill and decode.

    Raises:
        ValueError: a time is negative or not a number, all work takes no time, or more is saved than the request takes.
    """

    encode: float
    prefill: float
    decode: float
    transfer: float = 0.0
    queue_saved: float = 0.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not 0 <= value <= MAX_MS:
                raise ValueError(f"{item.name}: {value:g} is not a time: use milliseconds from 0 to {MAX_MS:.0f}")
        if self.aggregated == 0:
            raise ValueError("encode, prefill, decode: all are 0: measure at least one of them")
        if self.queue_saved > self.aggregated + self.transfer:
            raise ValueError(
                f"queue_saved: {self.queue_saved:g} ms is more than the whole request takes "
                f"({self.aggregated + self.transfer:g} ms): a request cannot end before it begins"
            )

    @property
    def aggregated(self) -> float:
        """Time of a request if one worker does everything."""
        return math.fsum((self.encode, self.prefill, self.decode))

    @property
    def split(self) -> float:
        """Time of a request if encoders are separate."""
        return math.fsum((self.encode, self.transfer, self.prefill, self.decode, -self.queue_saved))

    @property
    def gain_percent(self) -> float:
        """Part of the aggregated time that splitting saves; negative if it costs time."""
        return (self.aggregated - self.split) / self.aggregated * 100

    @property
    def verdict(self) -> Verdict:
        """What to do."""
        return Verdict.TEST if self.gain_percent > WORTH_TESTING_PERCENT else Verdict.STAY_AGGREGATED

    @property
    def shares_percent(self) -> dict[str, float]:
        """Share of each stage in the aggregated time."""
        return {stage: getattr(self, stage) / self.aggregated * 100 for stage in ("encode", "prefill", "decode")}


TIMES = tuple(item.name for item in fields(StageTimes))


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A kind of request.

    Attributes:
        name: its name.
        times: mean times.
        share: its part of all requests, in any unit.

    Raises:
        ValueError: the share is not a positive number.
    """

    name: str
    times: StageTimes
    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= MAX_MS:
            raise ValueError(
                f"share: {self.share:g} is not a share: use a positive number, for example requests per minute"
            )


def mixture(workloads: Sequence[Workload]) -> StageTimes:
    """Mean times of all requests, weighted by the shares of the workloads.

    Raises:
        ValueError: there are no workloads.
    """
    total = math.fsum(workload.share for workload in workloads)
    if not total:
        raise ValueError("workloads: the list is empty: give at least one")
    return StageTimes(
        **{
            time: min(math.fsum(getattr(w.times, time) * (w.share / total) for w in workloads), MAX_MS)
            for time in TIMES
        }
    )


def sweep(times: StageTimes, *, time: str, values: Sequence[float]) -> tuple[StageTimes, ...]:
    """The same workload with other values of one time.

    Raises:
        ValueError: a value is not possible.
    """
    return tuple(replace(times, **{time: value}) for value in values)


def break_even(times: StageTimes, *, time: str, gain_percent: float = WORTH_TESTING_PERCENT) -> float | None:
    """The value of one time, in milliseconds, at which the gain is `gain_percent`.

    None if no value reaches it: no time of encode, prefill or decode changes whether splitting saves time, only how
    large the part is; and a time cannot be negative.
    """
    part = gain_percent / 100
    net = times.queue_saved - times.transfer
    if time == "transfer":
        value = times.queue_saved - part * times.aggregated
    elif time == "queue_saved":
        value = times.transfer + part * times.aggregated
    elif part == 0:
        return None
    else:
        value = net / part - (times.aggregated - getattr(times, time))
    return value if 0 <= value <= MAX_MS else None

"""Mean latencies over an interval: of frontends, as clients observe them, and of each stage.

They are computed from histograms, whose sums and counts only increase while a process runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Sum and count of a histogram since its process started."""

    seconds: float = 0.0
    count: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LatencyTotals:
    """Totals of one frontend; None if they could not be read.

    Attributes:
        measured_at: time of the measurement.
        first_token: time to first token (TTFT), one value per request.
        inter_token: inter-token latency (ITL), one value per token.
    """

    measured_at: float
    first_token: Totals | None = None
    inter_token: Totals | None = None


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean, and the number of values in it."""

    milliseconds: float
    count: float


@dataclass(frozen=True, kw_only=True)
class MeanLatency:
    """Latencies for clients between two measurements; None if there was no traffic, or if it could not be read.

    Attributes:
        measured_at: time of the later measurement; if it differs between frontends, the oldest time.
        first_token: mean time to first token (TTFT).
        inter_token: mean inter-token latency (ITL).
    """

    measured_at: float
    first_token: Mean | None = None
    inter_token: Mean | None = None


def mean_latency(earlier: Mapping[str, LatencyTotals], later: Mapping[str, LatencyTotals]) -> MeanLatency | None:
    """Mean over all frontends that are in both measurements, by pod name; None if there is no such frontend.

    A frontend that is only in the later measurement does not count: its totals may cover many days.
    """
    pairs = [(earlier[pod], totals) for pod, totals in later.items() if pod in earlier]
    if not pairs:
        return None
    return MeanLatency(
        measured_at=min(after.measured_at for _, after in pairs),
        first_token=mean(increase(before.first_token, after.first_token) for before, after in pairs),
        inter_token=mean(increase(before.inter_token, after.inter_token) for before, after in pairs),
    )


def increase(before: Totals | None, after: Totals | None) -> Totals:
    """Increase of a histogram between two measurements; zero if one of them is missing."""
    if before is None or after is None:
        return Totals()
    if after.count < before.count or after.seconds < before.seconds:
        # The process restarted, so all its values are new.
        return after
    return Totals(seconds=after.seconds - before.seconds, count=after.count - before.count)


def mean(increases: Iterable[Totals]) -> Mean | None:
    """The mean of all new values; None if there is less than one new value."""
    totals = tuple(increases)
    count = sum(total.count for total in totals)
    if count < 1:
        return None
    return Mean(milliseconds=1000 * sum(total.seconds for total in totals) / count, count=count)


@dataclass(frozen=True, kw_only=True)
class StageTotals:
    """Totals of one pod; None if its stage does not have them, or if they could not be read.

    Attributes:
        encode: time of a request in an encoder, including its wait there. An encoder accepts up to 10,000 requests at
            once, so requests do not wait outside of it. Requests without images do not use encoders.
        queue: time of a request in the engine's queue. The engine counts this and the following times when the request
            ends.
        prefill: time from the end of the queue to the first token.
        decode: time from the first token to the last token.
    """

    encode: Totals | None = None
    queue: Totals | None = None
    prefill: Totals | None = None
    decode: Totals | None = None


@dataclass(frozen=True, kw_only=True)
class StageTimes:
    """Mean times between two measurements; None if no request passed the stage."""

    encode: Mean | None = None
    queue: Mean | None = None
    prefill: Mean | None = None
    decode: Mean | None = None


def stage_times(earlier: Mapping[str, StageTotals], later: Mapping[str, StageTotals]) -> StageTimes:
    """Mean times over all requests of the pods that are in both measurements, by pod name."""
    pairs = [(earlier[pod], totals) for pod, totals in later.items() if pod in earlier]
    return StageTimes(
        encode=mean(increase(before.encode, after.encode) for before, after in pairs),
        queue=mean(increase(before.queue, after.queue) for before, after in pairs),
        prefill=mean(increase(before.prefill, after.prefill) for before, after in pairs),
        decode=mean(increase(before.decode, after.decode) for before, after in pairs),
    )


def encode_share(times: StageTimes, latency: MeanLatency) -> Mean | None:
    """Part of the mean time to first token that is spent in encoders, over all requests. None if it is unknown.

    Encoders count only requests with images, but frontends count all requests: text requests count with zero encoder
    time. Dynamo splits a request with several images between encoders, which then work in parallel. So encoders may
    count more parts than there are requests: each request counts as at most one visit, and the result is at most the
    time to first token.
    """
    if times.encode is None or latency.first_token is None:
        return None
    visits = min(1.0, times.encode.count / latency.first_token.count)
    share = min(times.encode.milliseconds * visits, latency.first_token.milliseconds)
    return Mean(milliseconds=share, count=latency.first_token.count)

"""Mean latencies over an interval, from counters that only grow: of frontends (what clients see) and of each stage."""

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


@dataclass(frozen=True, kw_only=True)
class StageTotals:
    """One pod's totals; None where its stage has none or they could not be read.

    Attributes:
        encode: time of a request in an encoder, its wait there included: an encoder takes up to 10,000 requests in
            at once, so nothing waits outside it. Requests without images never come here.
        queue: time of a request in the engine's queue. The engine counts its times when the request ends.
        prefill: time from there to the first token.
        decode: time from the first token to the last.
    """

    encode: Totals | None = None
    queue: Totals | None = None
    prefill: Totals | None = None
    decode: Totals | None = None


@dataclass(frozen=True, kw_only=True)
class StageTimes:
    """Means between two readings over the pods that both have; None where nothing went through the stage."""

    encode: Mean | None = None
    queue: Mean | None = None
    prefill: Mean | None = None
    decode: Mean | None = None


def stage_times(earlier: Mapping[str, StageTotals], later: Mapping[str, StageTotals]) -> StageTimes:
    """Means by what each pod, given by name, has gained; pods count by their requests."""
    pairs = [(earlier[pod], totals) for pod, totals in later.items() if pod in earlier]
    return StageTimes(
        encode=mean(growth(before.encode, after.encode) for before, after in pairs),
        queue=mean(growth(before.queue, after.queue) for before, after in pairs),
        prefill=mean(growth(before.prefill, after.prefill) for before, after in pairs),
        decode=mean(growth(before.decode, after.decode) for before, after in pairs),
    )


def encode_share(times: StageTimes, latency: MeanLatency) -> Mean | None:
    """What encoders add to the mean time to the first token, over all requests; None where either is unknown.

    An encoder counts requests with images, a frontend all of them: text requests weigh in with no time at an encoder.
    Dynamo splits a request with several images between encoders that work side by side, so there may be more parts
    than requests: they count as one visit per request at most, and never for more than the time to the first token.
    """
    if times.encode is None or latency.first_token is None:
        return None
    visits = min(1.0, times.encode.count / latency.first_token.count)
    share = min(times.encode.milliseconds * visits, latency.first_token.milliseconds)
    return Mean(milliseconds=share, count=latency.first_token.count)

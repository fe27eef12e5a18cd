"""How long requests spend in each stage, from counters of encoders and engines that only ever grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from epd_operator.scrape.latency import Mean, MeanLatency, Totals, growth, mean


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

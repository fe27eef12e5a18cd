"""Compares mean latencies with the service level, and finds the stage that causes one that is too high."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from epd_operator.api.v1alpha1.autoscaling import ServiceLevel
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey

AT_RISK_PERCENT = 80
"""A stage that causes a latency of at least this share of the limit is not scaled down."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Means since the last decision, in seconds; None where nothing was measured.

    The shares of the stages are means over all requests, including those without images. They are measured in other
    processes than the time to the first token, and engines report them when a request ends. So their sum can differ
    from the time to the first token.

    Attributes:
        time_to_first_token: from the request to its first token.
        inter_token_latency: between two tokens.
        encode: share of the time to the first token that encoders take, their queue included.
        pd_queue: share that a request waits for a PD worker.
        prefill: share of prefill.
    """

    time_to_first_token: float | None = None
    inter_token_latency: float | None = None
    encode: float | None = None
    pd_queue: float | None = None
    prefill: float | None = None


@dataclass(frozen=True, kw_only=True)
class SloRisk:
    """A latency of a stage that is above its limit, or close to it.

    Attributes:
        violated: whether the stage is scaled up; if false, it is only not scaled down.
        message: the measured and the allowed latency.
    """

    violated: bool
    message: str


def slo_risks(
    latency: Latency | None, *, level: ServiceLevel | None, stages: Collection[StageKey]
) -> dict[StageKey, SloRisk]:
    """The stages that cause a latency above, or close to, the service level.

    The time to the first token is attributed to the encoders if their share is larger than that of PD, otherwise to PD.
    The time between tokens is always attributed to PD. A stage that both encodes and decodes gets both. If the share of
    PD is unknown (no request has ended since the last decision), it is the rest of the time to the first token.
    """
    if latency is None or level is None:
        return {}
    found: dict[StageKey, SloRisk] = {}
    for revision in dict.fromkeys(stage.revision for stage in stages):
        found |= _slo_risks_of(revision, latency, level=level, stages=stages)
    return found


def _slo_risks_of(
    revision: str, latency: Latency, *, level: ServiceLevel, stages: Collection[StageKey]
) -> dict[StageKey, SloRisk]:
    decoders = (StageKey(name, revision) for name in (StageName.PD, StageName.WORKER, StageName.GROUP))
    decoder = next((stage for stage in decoders if stage in stages), None)
    encoder = StageKey(StageName.ENCODER, revision)
    slow_stage = encoder if encoder in stages and _encoders_dominate(latency) else decoder
    found: dict[StageKey, SloRisk] = {}
    for name, stage, measured, allowed in (
        ("time to first token", slow_stage, latency.time_to_first_token, level.time_to_first_token_milliseconds),
        ("inter-token latency", decoder, latency.inter_token_latency, level.inter_token_latency_milliseconds),
    ):
        if stage is None or measured is None or allowed is None:
            continue
        risk = _slo_risk(name, measured=measured * 1000, allowed=allowed)
        if risk and (stage not in found or risk.violated):
            found[stage] = risk
    return found


def _encoders_dominate(latency: Latency) -> bool:
    """Whether encoders take more of the time to the first token than PD."""
    encoders = latency.encode or 0.0
    if latency.pd_queue is None and latency.prefill is None:
        return encoders > (latency.time_to_first_token or 0.0) - encoders
    return encoders > (latency.pd_queue or 0.0) + (latency.prefill or 0.0)


def _slo_risk(name: str, *, measured: float, allowed: int) -> SloRisk | None:
    if measured * 100 < allowed * AT_RISK_PERCENT:
        return None
    return SloRisk(violated=measured > allowed, message=f"mean {name} {measured:.0f} ms, allowed {allowed} ms")

"""Latencies against the service level: which stage is to blame, and how hard it presses."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from epd_operator.api.v1alpha1.autoscaling import ServiceLevel
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey

AT_RISK_PERCENT = 80
"""Share of the allowed latency from which on the stage to blame does not shrink."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Means since the last decision, in seconds; None where nothing was measured.

    Shares are means over all requests, those without images included. They are measured at other places than the time
    to the first token, and engines tell theirs when a request ends, so they need not add up to it.

    Attributes:
        time_to_first_token: from the request to its first token.
        inter_token_latency: between two tokens.
        encoder_queue: share of the time to the first token waiting for an encoder; None where ``encode`` has it.
        encode: share spent in the encoder.
        pd_queue: share spent waiting for a PD worker.
        prefill: share spent in prefill.
    """

    time_to_first_token: float | None = None
    inter_token_latency: float | None = None
    encoder_queue: float | None = None
    encode: float | None = None
    pd_queue: float | None = None
    prefill: float | None = None


@dataclass(frozen=True, kw_only=True)
class Pressure:
    """What latencies ask of a stage: to grow where violated, otherwise not to shrink."""

    violated: bool
    message: str


def pressures(
    latency: Latency | None, *, level: ServiceLevel | None, stages: Collection[StageKey]
) -> dict[StageKey, Pressure]:
    """The stages that are to blame for latencies beyond, or close to, the service level.

    The time to the first token is blamed on the encoders when they and their queue take the largest share, otherwise
    on PD; the time between tokens always on PD. Where a stage does both, it is to blame. If PD's share is unknown (no
    request ended meanwhile), it is what the encoders leave of the time to the first token.
    """
    if latency is None or level is None:
        return {}
    found: dict[StageKey, Pressure] = {}
    for revision in dict.fromkeys(stage.revision for stage in stages):
        found |= _pressures_of(revision, latency, level=level, stages=stages)
    return found


def _pressures_of(
    revision: str, latency: Latency, *, level: ServiceLevel, stages: Collection[StageKey]
) -> dict[StageKey, Pressure]:
    decoders = (StageKey(name, revision) for name in (StageName.PD, StageName.WORKER, StageName.GROUP))
    decoder = next((stage for stage in decoders if stage in stages), None)
    encoder = StageKey(StageName.ENCODER, revision)
    first = encoder if encoder in stages and _is_encoders(latency) else decoder
    found: dict[StageKey, Pressure] = {}
    for name, stage, measured, allowed in (
        ("time to first token", first, latency.time_to_first_token, level.time_to_first_token_milliseconds),
        ("inter-token latency", decoder, latency.inter_token_latency, level.inter_token_latency_milliseconds),
    ):
        if stage is None or measured is None or allowed is None:
            continue
        pressure = _pressure(name, measured=measured * 1000, allowed=allowed)
        if pressure and (stage not in found or pressure.violated):
            found[stage] = pressure
    return found


def _is_encoders(latency: Latency) -> bool:
    encoders = (latency.encoder_queue or 0.0) + (latency.encode or 0.0)
    if latency.pd_queue is None and latency.prefill is None:
        return encoders > (latency.time_to_first_token or 0.0) - encoders
    return encoders > (latency.pd_queue or 0.0) + (latency.prefill or 0.0)


def _pressure(name: str, *, measured: float, allowed: int) -> Pressure | None:
    if measured * 100 < allowed * AT_RISK_PERCENT:
        return None
    return Pressure(violated=measured > allowed, message=f"mean {name} {measured:.0f} ms, allowed {allowed} ms")

"""The band of encoders per PD worker, in topology Disaggregated.

The stage that lags is raised; the leading one is never lowered below what its own load asks for. Where no whole number
of replicas fits the band, or the lagging stage may not have as many, it comes as close as it may and says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from epd_operator.api.v1alpha1.autoscaling import RatioBand
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey
from epd_operator.scaling.model import ScalingReason
from epd_operator.scaling.stage import Proposal


def with_ratio(
    proposals: Mapping[StageKey, Proposal], *, fixed: Mapping[StageKey, int], band: RatioBand
) -> dict[StageKey, Proposal]:
    """Proposals after the band, which is kept within each revision.

    Args:
        proposals: what each stage that the operator scales asks for.
        fixed: replicas of the stages that are not scaled here.
        band: the band; it applies only where there are both encoders and PD workers.
    """
    result = dict(proposals)
    for revision in dict.fromkeys(stage.revision for stage in proposals):
        result = _with_ratio_of(revision, result, fixed=fixed, band=band)
    return result


def _with_ratio_of(
    revision: str, proposals: dict[StageKey, Proposal], *, fixed: Mapping[StageKey, int], band: RatioBand
) -> dict[StageKey, Proposal]:
    wanted = {**fixed, **{stage: proposal.desired for stage, proposal in proposals.items()}}
    encoder, pd = StageKey(StageName.ENCODER, revision), StageKey(StageName.PD, revision)
    encoders, workers = wanted.get(encoder), wanted.get(pd)
    if encoders is None or workers is None or proposals.keys().isdisjoint((encoder, pd)):
        return proposals
    if encoders * 100 < workers * band.min_percent:
        low, high = _ceil(workers * band.min_percent, 100), workers * band.max_percent // 100
        return _raise(proposals, encoder, low=low, high=high, now=encoders, other=pd, band=band)
    if encoders * 100 > workers * band.max_percent:
        low, high = _ceil(encoders * 100, band.max_percent), encoders * 100 // band.min_percent
        return _raise(proposals, pd, low=low, high=high, now=workers, other=encoder, band=band)
    return proposals


def _raise(
    proposals: Mapping[StageKey, Proposal],
    lagging: StageKey,
    *,
    low: int,
    high: int,
    now: int,
    other: StageKey,
    band: RatioBand,
) -> dict[StageKey, Proposal]:
    """Raise a stage to the lowest number in the band, or as far as it may."""
    result = dict(proposals)
    limits = f"{band.min_percent} to {band.max_percent} encoders per 100 PD workers"
    if lagging not in proposals:
        words = f"{lagging} has {now} where {low} would fit {limits}, but is not scaled by the operator"
        result[other] = proposals[other].changed(proposals[other].desired, proposals[other].reason, words)
        return result
    proposal = proposals[lagging]
    wanted = max(now, min(low, high, proposal.highest))
    if wanted >= low:
        words = f"{wanted} to keep {limits}"
    elif low > high:
        words = f"{wanted}: no whole number of {lagging} replicas fits {limits}, widen the band"
    else:
        words = f"{wanted} where {low} would fit {limits}: it may have {proposal.highest} at most"
    reason = ScalingReason.RATIO_BAND if wanted != now else proposal.reason
    result[lagging] = proposal.changed(wanted, reason, words)
    return result


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)

"""The allowed ratio of encoders to PD workers (``scaling.encodersPerPd``), in topology Disaggregated.

The stage that has too few replicas is raised; the other stage is never lowered. If no whole number of replicas has an
allowed ratio, the stage is raised to the number just below the allowed ratio, or to its maximum. Its message shows the
cause.
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
    """Proposals with an allowed ratio, separately for each revision.

    Args:
        proposals: proposals of the stages that the operator scales.
        fixed: replicas of the other stages that can run.
        band: the allowed ratio; it applies only to revisions that have both encoders and PD workers.
    """
    result = dict(proposals)
    for revision in dict.fromkeys(stage.revision for stage in proposals):
        result = _with_ratio_of(revision, result, fixed=fixed, band=band)
    return result


def _with_ratio_of(
    revision: str, proposals: dict[StageKey, Proposal], *, fixed: Mapping[StageKey, int], band: RatioBand
) -> dict[StageKey, Proposal]:
    replicas = {**fixed, **{stage: proposal.desired for stage, proposal in proposals.items()}}
    encoder, pd = StageKey(StageName.ENCODER, revision), StageKey(StageName.PD, revision)
    encoders, workers = replicas.get(encoder), replicas.get(pd)
    if encoders is None or workers is None or proposals.keys().isdisjoint((encoder, pd)):
        return proposals
    if encoders * 100 < workers * band.min_percent:
        low, high = _divide_up(workers * band.min_percent, 100), workers * band.max_percent // 100
        return _raise_stage(proposals, encoder, low=low, high=high, now=encoders, other=pd, band=band)
    if encoders * 100 > workers * band.max_percent:
        low, high = _divide_up(encoders * 100, band.max_percent), encoders * 100 // band.min_percent
        return _raise_stage(proposals, pd, low=low, high=high, now=workers, other=encoder, band=band)
    return proposals


def _raise_stage(
    proposals: Mapping[StageKey, Proposal],
    lagging: StageKey,
    *,
    low: int,
    high: int,
    now: int,
    other: StageKey,
    band: RatioBand,
) -> dict[StageKey, Proposal]:
    """Raise the stage that has too few replicas to the lowest number with an allowed ratio, or as far as possible.

    Args:
        proposals: proposals of the stages that the operator scales.
        lagging: the stage that has too few replicas.
        low: its lowest number with an allowed ratio.
        high: its highest number with an allowed ratio; below ``low`` if no whole number has one.
        now: its proposed replicas, or those that can run if the operator does not scale it.
        other: the other stage, whose message names a stage that cannot be raised.
        band: the allowed ratio.
    """
    limits = f"scaling.encodersPerPd ({band.min_percent} to {band.max_percent} encoders per 100 PD workers)"
    if lagging not in proposals:
        proposal = proposals[other]
        note = (
            f"{limits} requires at least {low} replicas of stage {lagging}, of which {now} can run and which is not "
            "scaled by the operator"
        )
        return {**proposals, other: proposal.adjusted(proposal.desired, proposal.reason, note)}
    proposal = proposals[lagging]
    raised = max(now, min(low, high, proposal.highest))
    if raised >= low:
        note = f"raised to {raised} by {limits}"
    elif low > high:
        note = f"set to {raised}, because no whole number of replicas is within {limits}: widen the range"
    else:
        note = f"limited to {raised} by maxReplicas or the capacity: {limits} requires at least {low}"
    reason = ScalingReason.RATIO_BAND if raised != now else proposal.reason
    return {**proposals, lagging: proposal.adjusted(raised, reason, note)}


def _divide_up(dividend: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-dividend // divisor)

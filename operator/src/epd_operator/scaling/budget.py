"""The GPU budget over all stages of a deployment.

Replicas that exist are not taken from one stage to feed another: they are paid for first, then growth, one replica at
a time for the stage that has the smallest part of what it wants. GPUs of leaving pods are still in use, so they limit
growth, never what exists. ``minReplicas`` is kept even beyond the budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from epd_operator.objects.identity import StageKey
from epd_operator.scaling.model import ScalingReason, StageObservation
from epd_operator.scaling.stage import Proposal


def within_budget(
    proposals: Mapping[StageKey, Proposal], *, observations: Iterable[StageObservation], budget: int | None
) -> dict[StageKey, Proposal]:
    """Proposals that together fit the budget.

    Args:
        proposals: what the scaled stages want.
        observations: all stages; those that are not scaled count with what they have.
        budget: GPUs for all of them; None means no limit.
    """
    if budget is None:
        return dict(proposals)
    seen = list(observations)
    fixed = sum(o.replicas * o.gpus_per_replica for o in seen if o.stage not in proposals)
    leaving = sum(o.draining * o.gpus_per_replica for o in seen)
    granted = {stage: min(p.lowest, p.desired) for stage, p in proposals.items()}
    keep = {stage: max(granted[stage], min(p.current, p.desired)) for stage, p in proposals.items()}
    left = budget - fixed - sum(_gpus(proposals[stage]) * count for stage, count in granted.items())
    left = _grant(granted, keep, left=left, proposals=proposals)
    _grant(granted, {s: p.desired for s, p in proposals.items()}, left=left - leaving, proposals=proposals)
    return {stage: _limited(proposal, granted[stage], budget=budget) for stage, proposal in proposals.items()}


def _grant(
    granted: dict[StageKey, int],
    wanted: Mapping[StageKey, int],
    *,
    left: int,
    proposals: Mapping[StageKey, Proposal],
) -> int:
    """Give one replica after the other while GPUs are left; returns what is left."""
    while True:
        open_stages = [s for s in proposals if granted[s] < wanted[s] and _gpus(proposals[s]) <= max(left, 0)]
        if not open_stages:
            return left
        poorest = min(open_stages, key=lambda stage: (granted[stage] / wanted[stage], stage))
        granted[poorest] += 1
        left -= _gpus(proposals[poorest])


def _gpus(proposal: Proposal) -> int:
    return proposal.observation.gpus_per_replica


def _limited(proposal: Proposal, granted: int, *, budget: int) -> Proposal:
    if granted >= proposal.desired:
        return proposal
    words = f"{granted} of {proposal.desired}: all stages together may use {budget} GPUs (scaling.gpuBudget)"
    return proposal.changed(granted, ScalingReason.GPU_BUDGET, words)

"""The GPU budget of all stages of a deployment together.

Existing replicas are granted first: no stage loses replicas in favour of another stage. Added replicas follow, one at a
time, each to the stage whose ratio of granted to desired replicas is lowest. GPUs of terminating pods are still in use,
so they limit added replicas, but not existing ones. So do those of a revision that starts or leaves. ``minReplicas`` is
kept even above the budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from epd_operator.objects.identity import StageKey
from epd_operator.scaling.model import ScalingReason, StageObservation
from epd_operator.scaling.stage import Proposal


def within_budget(
    proposals: Mapping[StageKey, Proposal],
    *,
    fixed: Mapping[StageKey, int],
    observations: Iterable[StageObservation],
    budget: int | None,
    beside: int = 0,
) -> dict[StageKey, Proposal]:
    """Proposals that fit the budget together.

    Args:
        proposals: proposals of the stages that the operator scales.
        fixed: replicas of the other stages that can run.
        observations: all stages.
        budget: GPUs for all stages; None means no limit.
        beside: GPUs of another revision of the deployment.
    """
    if budget is None:
        return dict(proposals)
    stages = list(observations)
    unscaled_gpus = sum(fixed.get(o.stage, 0) * o.gpus_per_replica for o in stages)
    terminating_gpus = sum(o.terminating * o.gpus_per_replica for o in stages)
    granted = {stage: min(p.lowest, p.desired) for stage, p in proposals.items()}
    existing = {stage: max(granted[stage], min(p.current, p.desired)) for stage, p in proposals.items()}
    free = budget - unscaled_gpus - sum(_gpus(proposals[stage]) * count for stage, count in granted.items())
    free = _grant(granted, existing, free=free, proposals=proposals)
    desired = {stage: p.desired for stage, p in proposals.items()}
    _grant(granted, desired, free=free - terminating_gpus - beside, proposals=proposals)
    return {stage: _limited(proposal, granted[stage], budget=budget) for stage, proposal in proposals.items()}


def _grant(
    granted: dict[StageKey, int],
    wanted: Mapping[StageKey, int],
    *,
    free: int,
    proposals: Mapping[StageKey, Proposal],
) -> int:
    """Grant one replica after the other, in place, while enough GPUs are free; returns the GPUs that stay free."""
    while True:
        candidates = [s for s in proposals if granted[s] < wanted[s] and _gpus(proposals[s]) <= max(free, 0)]
        if not candidates:
            return free
        neediest = min(candidates, key=lambda stage: (granted[stage] / wanted[stage], stage))
        granted[neediest] += 1
        free -= _gpus(proposals[neediest])


def _gpus(proposal: Proposal) -> int:
    return proposal.observation.gpus_per_replica


def _limited(proposal: Proposal, granted: int, *, budget: int) -> Proposal:
    if granted >= proposal.desired:
        return proposal
    note = f"limited to {granted} instead of {proposal.desired} by scaling.gpuBudget ({budget} GPUs for all stages)"
    return proposal.adjusted(granted, ScalingReason.GPU_BUDGET, note)

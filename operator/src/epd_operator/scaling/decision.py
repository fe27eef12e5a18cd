"""The decisions for a deployment. Each rule starts from the result of the rule before it, and can override it.

1. Each stage alone, within its bounds and its capacity (``stage``).
2. The allowed ratio of encoders to PD workers raises the stage that has too few replicas, within its bounds and its
   capacity, without waiting for windows or policies (``ratio``).
3. The GPU budget limits added replicas first, then existing ones, but never below ``minReplicas`` (``budget``).

The bounds hold after each rule: rule 2 never raises above ``maxReplicas``, and rule 3 never lowers below
``minReplicas``. Stages without autoscaling, or in mode External, are not changed, but count in rules 2 and 3 with the
replicas that can run: not with pods that the API server refuses, or that have found no node for too long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from epd_operator.api.v1alpha1.autoscaling import Autoscaling, AutoscalingMode, Scaling, ServiceLevel
from epd_operator.objects.identity import StageKey
from epd_operator.scaling.budget import within_budget
from epd_operator.scaling.capacity import possible_replicas
from epd_operator.scaling.model import Decision, StageObservation
from epd_operator.scaling.ratio import with_ratio
from epd_operator.scaling.service_level import Latency, slo_risks
from epd_operator.scaling.stage import Proposal, finalize, propose
from epd_operator.scaling.state import StageState


def decide_all(
    states: Mapping[StageKey, StageState],
    observations: Sequence[StageObservation],
    settings: Mapping[StageKey, Autoscaling | None],
    scaling: Scaling,
    *,
    latency: Latency | None = None,
    service_level: ServiceLevel | None = None,
    gpus_beside: int = 0,
) -> tuple[dict[StageKey, StageState], tuple[Decision, ...]]:
    """Decide for all stages of a deployment.

    Args:
        states: the states that the last call returned; empty for the first call.
        observations: every stage, including the frontend and stages that the operator does not scale.
        settings: settings by stage; absent or None for a stage without autoscaling.
        scaling: settings of the deployment.
        latency: measured latencies; None if none were measured.
        service_level: the latencies to keep; None if the spec has none.
        gpus_beside: GPUs of another revision of the deployment, which count in the budget.

    Returns:
        The states for the next call, and a decision for each stage in mode Internal, in the order of the observations.
    """
    risks = slo_risks(latency, level=service_level, stages=[o.stage for o in observations])
    after: dict[StageKey, StageState] = {}
    proposals: dict[StageKey, Proposal] = {}
    fixed: dict[StageKey, int] = {}
    for observation in observations:
        stage, autoscaling = observation.stage, settings.get(observation.stage)
        if autoscaling is None or autoscaling.mode is not AutoscalingMode.INTERNAL:
            after[stage], fixed[stage] = possible_replicas(
                states.get(stage, StageState()),
                observation=observation,
                unschedulable_after=scaling.unschedulable_after_seconds,
            )
            continue
        after[stage], proposals[stage] = propose(
            states.get(stage, StageState()),
            observation,
            settings=autoscaling,
            scaling=scaling,
            slo_risk=risks.get(stage),
        )
    proposals = with_ratio(proposals, fixed=fixed, band=scaling.encoders_per_pd)
    proposals = within_budget(
        proposals, fixed=fixed, observations=observations, budget=scaling.gpu_budget, beside=gpus_beside
    )
    decisions = []
    for stage, proposal in proposals.items():
        after[stage], decision = finalize(after[stage], proposal)
        decisions.append(decision)
    return after, tuple(decisions)

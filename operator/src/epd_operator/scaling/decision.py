"""The decisions for a deployment. Rules in the order in which they apply; a later one has the last word.

1. Each stage by itself, within its bounds and what its pool can place (``stage``).
2. The band of encoders per PD worker raises the stage that lags, within its bounds and its pool (``ratio``); it does
   not wait for windows or policies.
3. The GPU budget cuts growth, then what exists, never below ``minReplicas`` (``budget``).

Bounds hold after each of them: 2 raises at most to ``maxReplicas``, 3 lowers at least to ``minReplicas``. Stages
without autoscaling or in mode External are never touched, but count in 2 and 3 with what they have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from epd_operator.api.v1alpha1.autoscaling import Autoscaling, AutoscalingMode, Scaling, ServiceLevel
from epd_operator.objects.identity import StageKey
from epd_operator.scaling.budget import within_budget
from epd_operator.scaling.latency import Latency, Pressure, pressures
from epd_operator.scaling.model import Decision, StageObservation
from epd_operator.scaling.ratio import with_ratio
from epd_operator.scaling.stage import Proposal, conclude, propose
from epd_operator.scaling.state import StageMemory


def decide(
    state: StageMemory,
    observation: StageObservation,
    settings: Autoscaling,
    scaling: Scaling,
    *,
    pressure: Pressure | None = None,
) -> tuple[StageMemory, Decision]:
    """Decide for one stage as if it were alone.

    Args:
        state: what the last decision returned; ``StageMemory()`` at first.
        observation: the stage now.
        settings: its settings, in mode Internal.
        scaling: settings of the deployment.
        pressure: what latencies ask of the stage.
    """
    state, proposal = propose(state, observation, settings=settings, scaling=scaling, pressure=pressure)
    return conclude(state, proposal)


def decide_all(
    states: Mapping[StageKey, StageMemory],
    observations: Sequence[StageObservation],
    settings: Mapping[StageKey, Autoscaling | None],
    scaling: Scaling,
    *,
    latency: Latency | None = None,
    service_level: ServiceLevel | None = None,
) -> tuple[dict[StageKey, StageMemory], tuple[Decision, ...]]:
    """Decide for all stages of a deployment.

    Args:
        states: what the last decision returned; empty at first.
        observations: every stage, the frontend and those that are not scaled included.
        settings: settings by stage; stages that are not scaled are absent or None.
        scaling: settings of the deployment.
        latency: measured latencies, where there are any.
        service_level: the latencies to keep.

    Returns:
        The states to pass next time, and a decision for each stage in mode Internal, in the order of the observations.
    """
    pressed = pressures(latency, level=service_level, stages=[o.stage for o in observations])
    after: dict[StageKey, StageMemory] = {}
    proposals: dict[StageKey, Proposal] = {}
    fixed: dict[StageKey, int] = {}
    for observation in observations:
        stage, wanted = observation.stage, settings.get(observation.stage)
        if wanted is None or wanted.mode is not AutoscalingMode.INTERNAL:
            fixed[stage] = observation.replicas
            continue
        after[stage], proposals[stage] = propose(
            states.get(stage, StageMemory()),
            observation,
            settings=wanted,
            scaling=scaling,
            pressure=pressed.get(stage),
        )
    proposals = with_ratio(proposals, fixed=fixed, band=scaling.encoders_per_pd)
    proposals = within_budget(proposals, observations=observations, budget=scaling.gpu_budget)
    decisions = []
    for stage, proposal in proposals.items():
        after[stage], decision = conclude(after[stage], proposal)
        decisions.append(decision)
    return after, tuple(decisions)

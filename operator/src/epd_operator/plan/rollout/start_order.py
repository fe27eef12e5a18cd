"""Start order: which stages may be created now."""

from __future__ import annotations

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.plan.observation import Observation
from epd_operator.plan.stages.stage_plan import StagePlan


def startable(stages: list[StagePlan], *, observation: Observation) -> list[StagePlan]:
    """Stages that may exist now.

    A PD process blocks at its start until one encoder is discovered, so PD pods are created after the first encoder
    is ready. A PD stage that exists is never taken away again: text requests must go on when encoders are lost.
    """
    return [stage for stage in stages if stage.name is not StageName.PD or _pd_may_exist(observation)]


def _pd_may_exist(observation: Observation) -> bool:
    if observation.deployment_of(StageName.PD) is not None:
        return True
    encoder = observation.deployment_of(StageName.ENCODER) or {}
    return int(encoder.get("status", {}).get("readyReplicas") or 0) >= 1

"""Start order: which stages may be created now."""

from __future__ import annotations

from collections.abc import Iterable

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey
from epd_operator.plan.observation import Observation
from epd_operator.plan.stages.stage_plan import StagePlan
from epd_operator.plan.workloads.progress import progress_of


def startable(stages: Iterable[StagePlan], *, observation: Observation) -> list[StagePlan]:
    """Stages whose Deployments may exist now.

    A PD process does not finish its start until it discovers an encoder, so PD pods are created after the first encoder
    is ready. An existing PD stage is not removed when encoders are lost, so it serves again as soon as one is ready.
    """
    return [s for s in stages if s.name is not StageName.PD or _pd_may_exist(s.key, observation=observation)]


def _pd_may_exist(pd: StageKey, *, observation: Observation) -> bool:
    if observation.deployment_of(pd) is not None:
        return True
    encoder = StageKey(StageName.ENCODER, pd.revision)
    return progress_of(observation.deployment_of(encoder)).ready >= 1

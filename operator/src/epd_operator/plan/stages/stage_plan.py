"""The plan of a stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epd_operator.api.v1alpha1.rollout import Rollout
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import StageKey


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """The planned state of one stage.

    Attributes:
        key: name and revision of the stage.
        replicas: number of pods.
        pool: name of the pool of nodes; None for frontends.
        pod_template: metadata and spec of its pods.
        rollout: limits of its rollouts.
        progress_deadline_seconds: time without progress after which Kubernetes reports it.
        paused: whether its rollouts pause.
        drained_from: replicas that it should have, if a rollout has scaled it down, or not up yet; None otherwise.
    """

    key: StageKey
    replicas: int
    pool: str | None
    pod_template: dict[str, Any]
    rollout: Rollout
    progress_deadline_seconds: int = 0
    paused: bool = False
    drained_from: int | None = None

    @property
    def name(self) -> StageName:
        """Name of the stage."""
        return self.key.name

"""An entry of the registry of children, and the input of its builder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec
from epd_operator.objects.identity import Identity
from epd_operator.objects.kinds import Kind
from epd_operator.plan.drift import DriftRules
from epd_operator.plan.observation import Observation
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.stages.stage_plan import StagePlan

WORKER_ROLE = "epd-worker-discovery"
"""ClusterRole of the chart. It is bound by name, so the operator does not need the rights that the role grants."""

ALL_VERBS = ("get", "list", "watch", "create", "patch", "delete")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the installation, the same for all objects.

    Attributes:
        worker_role: ClusterRole that is bound for the pods.
    """

    worker_role: str = WORKER_ROLE


@dataclass(frozen=True, kw_only=True)
class ChildContext:
    """The input of the builders of children.

    Attributes:
        spec: the spec of the EPDDeployment.
        observation: the state of the cluster.
        settings: settings of the installation.
        rollout: the revisions with their stages, and the replicas that these should have now.
    """

    spec: EPDDeploymentSpec
    observation: Observation
    settings: Settings
    rollout: Rollout

    @property
    def stages(self) -> tuple[StagePlan, ...]:
        """The stages of all revisions."""
        return self.rollout.stages

    @property
    def identity(self) -> Identity:
        """The EPDDeployment that owns the children."""
        return self.observation.identity


@dataclass(frozen=True, kw_only=True)
class ChildKind:
    """One kind of child.

    Attributes:
        kind: the kind, with its path at the API server.
        build: builds every child of this kind that should exist now.
        purpose: its use, for the documentation.
        drift: how a live child is compared with the plan.
        verbs: rights that the operator needs on it; the chart's roles are generated from them.
        optional: whether the operator works without it, because no other child depends on it.
        absence: what does not work if the API server does not serve the kind, or the operator has no rights on it.
    """

    kind: Kind
    build: Callable[[ChildContext], Iterable[dict[str, Any]]]
    purpose: str
    absence: str
    drift: DriftRules = field(default_factory=DriftRules)
    verbs: tuple[str, ...] = ALL_VERBS
    optional: bool = False

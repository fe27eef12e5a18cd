"""The input of a scaling decision, and the decision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from epd_operator.objects.identity import StageKey


@dataclass(frozen=True, kw_only=True)
class PodLoad:
    """One pod of a stage, as it was last observed.

    Attributes:
        name: name of the pod.
        ready: whether the pod is ready.
        requests: running and waiting requests of all its processes; None where its metrics could not be read.
        kv_cache_percent: use of the KV cache, 0 to 100; None where the stage has none or it could not be read.
        measured_at: when the metrics were read; None where they have never been read.
        scheduled: whether the pod has a node.
    """

    name: str
    ready: bool
    requests: float | None = None
    kv_cache_percent: float | None = None
    measured_at: float | None = None
    scheduled: bool = True


@dataclass(frozen=True, kw_only=True)
class PodRefusal:
    """The API server refuses to create pods of a stage.

    Attributes:
        message: its answer.
        seconds: for how long.
        by_quota: whether a ResourceQuota is used up.
    """

    message: str
    seconds: float
    by_quota: bool = False


class NodeSupply(Enum):
    """What a node autoscaler reports about pods without a node."""

    COMING = auto()
    NONE = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, kw_only=True)
class StageObservation:
    """One stage at one moment.

    Attributes:
        stage: the stage.
        at: the moment, on the same clock as ``PodLoad.measured_at``.
        replicas: replicas in the spec of the stage's Deployment (in CoLocated, a replica is a group).
        pods: pods of the stage, without terminating ones, and without those for which a blocked rollout waits.
        unschedulable_seconds: for how long the scheduler has found no node for the pod that waits longest; None if all
            pods have a node.
        nodes: whether a node autoscaler adds a node for pods without one.
        refusal: why pods of the stage are not created; None if they are.
        rolling_out: whether pods of an earlier template are being replaced; false for a blocked rollout.
        terminating: number of terminating pods.
        gpus_per_replica: GPUs of each pod; 0 for frontends.
        metrics_error: why no metrics can be read, and what to do; None if they can be read.
    """

    stage: StageKey
    at: float
    replicas: int
    pods: tuple[PodLoad, ...] = ()
    unschedulable_seconds: float | None = None
    nodes: NodeSupply = NodeSupply.UNKNOWN
    refusal: PodRefusal | None = None
    rolling_out: bool = False
    terminating: int = 0
    gpus_per_replica: int = 1
    metrics_error: str | None = None


class ScalingReason(StrEnum):
    """Why a decision sets this number of replicas; docs/scaling-decisions.md explains each reason."""

    WITHIN_TARGET = "WithinTarget"
    LOAD_ABOVE_TARGET = "LoadAboveTarget"
    LOAD_BELOW_TARGET = "LoadBelowTarget"
    PANIC = "Panic"
    STABILIZING = "Stabilizing"
    METRICS_MISSING = "MetricsMissing"
    METRICS_STALE = "MetricsStale"
    ROLLING_OUT = "RollingOut"
    PODS_PENDING = "PodsPending"
    DRAINING = "Draining"
    RATIO_BAND = "RatioBand"
    GPU_BUDGET = "GpuBudget"
    UNSCHEDULABLE = "Unschedulable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    PODS_REFUSED = "PodsRefused"
    SLO_VIOLATED = "SloViolated"
    SLO_AT_RISK = "SloAtRisk"
    AT_MAXIMUM = "AtMaximum"
    AT_MINIMUM = "AtMinimum"
    POLICY_LIMITED = "PolicyLimited"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """How many replicas a stage should have, and why.

    Attributes:
        stage: the stage.
        current: replicas before the decision.
        desired: replicas after the decision.
        reason: that of the last rule that changed the number, otherwise that of the need.
        message: the rules that led to it, with numbers, for users.
        signal: metric that decided, such as ``requests``; None where no metric could be read.
        value: mean of the metric over the ready replicas with a sample.
        target: target of the metric per replica.
        metric_age_seconds: age of the oldest sample that was used.
    """

    stage: StageKey
    current: int
    desired: int
    reason: ScalingReason
    message: str
    signal: str | None = None
    value: float | None = None
    target: float | None = None
    metric_age_seconds: float | None = None

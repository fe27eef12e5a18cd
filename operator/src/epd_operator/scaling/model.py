"""What a scaling decision is made from, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from epd_operator.objects.identity import StageKey


@dataclass(frozen=True, kw_only=True)
class PodLoad:
    """One pod of a stage, as it was last seen.

    Attributes:
        name: name of the pod.
        ready: whether it takes requests.
        requests: running and waiting requests of all its processes; None where its metrics could not be read.
        kv_cache_percent: use of the KV cache, 0 to 100; None where the stage has none or it could not be read.
        measured_at: when the metrics were read; None where they never were.
        scheduled: whether it has a node.
    """

    name: str
    ready: bool
    requests: float | None = None
    kv_cache_percent: float | None = None
    measured_at: float | None = None
    scheduled: bool = True


@dataclass(frozen=True, kw_only=True)
class StageObservation:
    """One stage at one moment.

    Attributes:
        stage: which one.
        at: when, on the same clock as ``PodLoad.measured_at``.
        replicas: pods (groups, in CoLocated) that the stage's Deployment asks for now.
        pods: its pods, without those that are leaving.
        unschedulable_seconds: how long the longest waiting pod has found no node; None where all have one.
        rolling_out: pods of an earlier template exist.
        draining: pods that are leaving.
        gpus_per_replica: GPUs of each pod; 0 for frontends.
        obstacle: why metrics cannot be read at all, with the way out; None where they can.
    """

    stage: StageKey
    at: float
    replicas: int
    pods: tuple[PodLoad, ...] = ()
    unschedulable_seconds: float | None = None
    rolling_out: bool = False
    draining: int = 0
    gpus_per_replica: int = 1
    obstacle: str | None = None


class ScalingReason(StrEnum):
    """Why a stage has the replicas that it has; docs/autoscaling.md explains each."""

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
    SLO_VIOLATED = "SloViolated"
    SLO_AT_RISK = "SloAtRisk"
    AT_MAXIMUM = "AtMaximum"
    AT_MINIMUM = "AtMinimum"
    POLICY_LIMITED = "PolicyLimited"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """How many replicas a stage should have, and why.

    Attributes:
        stage: which one.
        current: replicas before the decision.
        desired: replicas after it.
        reason: the rule that had the last word.
        message: the same for a person, with numbers.
        signal: metric that decided, such as ``requests``; None where none could be read.
        value: the metric per ready replica.
        target: what it should be per replica.
        metric_age_seconds: age of the oldest sample that counted.
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

"""Autoscaling of a stage, in the vocabulary of HorizontalPodAutoscaler v2."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from epd_operator.api.markers import Int, ListMap, Rule
from epd_operator.api.v1alpha1.base import ApiModel


class AutoscalingMode(StrEnum):
    """Who decides."""

    INTERNAL = "Internal"
    EXTERNAL = "External"


class MetricType(StrEnum):
    """What is measured in each pod."""

    REQUESTS = "Requests"
    KV_CACHE_USAGE = "KVCacheUsage"


class Metric(ApiModel):
    """A metric with its target; of several metrics, the one that asks for most replicas decides."""

    type: MetricType = Field(
        description="Requests: running and waiting requests. KVCacheUsage: use of the KV cache, in per cent."
    )
    target_per_replica: Annotated[Int, Field(ge=1, le=100000)] = Field(
        description="What each replica should have: a number of requests, or per cent."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            expression="self.type != 'KVCacheUsage' || self.targetPerReplica <= 100",
            message="use of the KV cache is given in per cent: at most 100",
            field_path=".targetPerReplica",
        ),
    )


class PolicyType(StrEnum):
    """Unit of a scaling policy."""

    PODS = "Pods"
    PERCENT = "Percent"


class ScalingPolicy(ApiModel):
    """How far a stage may move within a period."""

    type: PolicyType = Field(description="Unit of value: replicas, or per cent of the replicas at the period's start.")
    value: Annotated[Int, Field(ge=1, le=100000)] = Field(description="Largest change within the period.")
    period_seconds: Annotated[Int, Field(ge=1, le=1800)] = Field(description="Length of the period, in seconds.")


class PolicySelect(StrEnum):
    """Which of several policies counts."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


Window = Annotated[Int, Field(ge=0, le=3600)]
Policies = Annotated[list[ScalingPolicy], Field(min_length=1, max_length=8)]

_PERIOD_SECONDS = 15
"""Period of the default policies."""


class ScalingRules(ApiModel):
    """How a stage is scaled in one direction. The defaults of each direction are those of HorizontalPodAutoscaler."""

    stabilization_window_seconds: Window
    tolerance_percent: Annotated[Int, Field(ge=0, le=100)] = Field(
        default=10, description="Deviation from the target that is ignored, in per cent."
    )
    select_policy: PolicySelect = Field(
        default=PolicySelect.MAX, description="Which of several policies counts; Disabled forbids this direction."
    )
    policies: Policies


class ScaleUpRules(ScalingRules):
    """How a stage is scaled up."""

    stabilization_window_seconds: Window = Field(
        default=0, description="The lowest recommendation of this window counts, in seconds."
    )
    policies: Policies = Field(
        default=[
            ScalingPolicy(type=PolicyType.PODS, value=4, period_seconds=_PERIOD_SECONDS),
            ScalingPolicy(type=PolicyType.PERCENT, value=100, period_seconds=_PERIOD_SECONDS),
        ],
        description="Limits of the speed.",
    )


class ScaleDownRules(ScalingRules):
    """How a stage is scaled down."""

    stabilization_window_seconds: Window = Field(
        default=300, description="The highest recommendation of this window counts, in seconds."
    )
    policies: Policies = Field(
        default=[ScalingPolicy(type=PolicyType.PERCENT, value=100, period_seconds=_PERIOD_SECONDS)],
        description="Limits of the speed.",
    )


class Behavior(ApiModel):
    """How a stage is scaled."""

    scale_up: ScaleUpRules = Field(default_factory=ScaleUpRules, description="Scaling up.")
    scale_down: ScaleDownRules = Field(default_factory=ScaleDownRules, description="Scaling down.")


class Panic(ApiModel):
    """Sudden load: grow at once, and do not shrink until it has passed."""

    threshold_percent: Annotated[Int, Field(ge=110, le=1000)] = Field(
        default=200, description="Load in per cent of the target from which on a stage panics."
    )
    window_seconds: Annotated[Int, Field(ge=1, le=3600)] = Field(
        default=60, description="How long a stage does not shrink after the last panic, in seconds."
    )


class Autoscaling(ApiModel):
    """Scales a stage from its own queue."""

    mode: AutoscalingMode = Field(
        default=AutoscalingMode.INTERNAL,
        description="Internal: the operator decides from the pods' metrics. External: an object EPDStageScale with a "
        "scale subresource is made for the stage, for a HorizontalPodAutoscaler or KEDA to drive.",
    )
    min_replicas: Annotated[Int, Field(ge=1, le=10000)] = Field(
        default=1,
        description="Lower limit. At least 1: without encoders Dynamo takes the whole model away, text included.",
    )
    max_replicas: Annotated[Int, Field(ge=1, le=10000)] = Field(description="Upper limit.")
    metrics: Annotated[list[Metric], Field(min_length=1, max_length=2), ListMap(("type",))] | None = Field(
        default=None, description="Metrics with their targets; needed in mode Internal."
    )
    behavior: Behavior = Field(default_factory=Behavior, description="How the stage moves.")
    panic: Panic = Field(default_factory=Panic, description="What a sudden load is.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            expression="self.minReplicas <= self.maxReplicas",
            message="minReplicas is larger than maxReplicas: swap or correct them",
            field_path=".minReplicas",
        ),
        Rule(
            expression="self.mode != 'Internal' || has(self.metrics)",
            message="mode Internal needs metrics with targets, for example {type: Requests, targetPerReplica: 8}",
            field_path=".metrics",
        ),
        Rule(
            expression="self.mode != 'External' || !has(self.metrics)",
            message="in mode External the HorizontalPodAutoscaler has the metrics: remove them here",
            field_path=".metrics",
        ),
    )


class RatioBand(ApiModel):
    """How many encoders there may be for each PD worker, in topology Disaggregated."""

    min_percent: Annotated[Int, Field(ge=1, le=10000)] = Field(
        default=1, description="Fewest encoders per 100 PD workers."
    )
    max_percent: Annotated[Int, Field(ge=1, le=100000)] = Field(
        default=100000, description="Most encoders per 100 PD workers."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            # The API server checks the default {} of this object before it fills the defaults inside it.
            expression="!has(self.minPercent) || !has(self.maxPercent) || self.minPercent <= self.maxPercent",
            message="minPercent is larger than maxPercent: swap or correct them",
            field_path=".minPercent",
        ),
    )


class MetricsSource(StrEnum):
    """Where metrics are read."""

    PODS = "Pods"
    PROMETHEUS = "Prometheus"


class Scaling(ApiModel):
    """What all scaled stages of a deployment share."""

    metrics_source: MetricsSource = Field(
        default=MetricsSource.PODS,
        description="Pods: the operator reads each pod's own page. Prometheus: it asks the server that it was started "
        "with (--prometheus-url, chart value prometheusUrl), for clusters where it may not reach the pods.",
    )

    gpu_budget: Annotated[Int, Field(ge=1, le=100000)] | None = Field(
        default=None, description="GPUs that all stages together may use; unset means no limit."
    )
    encoders_per_pd: RatioBand = Field(
        default_factory=RatioBand, description="Band in which the ratio of encoders to PD workers is kept."
    )
    interval_seconds: Annotated[Int, Field(ge=1, le=300)] = Field(
        default=15, description="Time between two decisions, in seconds."
    )
    stale_after_seconds: Annotated[Int, Field(ge=5, le=3600)] = Field(
        default=60, description="Age from which on metrics do not count any more, in seconds."
    )
    unschedulable_after_seconds: Annotated[Int, Field(ge=10, le=86400)] = Field(
        default=300,
        description="How long pods may find no node before a stage falls back to what fits, in seconds.",
    )


class ServiceLevel(ApiModel):
    """Latencies to keep. A stage that the timings blame for a violation grows."""

    time_to_first_token_milliseconds: Annotated[Int, Field(ge=1, le=3600000)] | None = Field(
        default=None, description="Mean time to the first token that may not be exceeded, in milliseconds."
    )
    inter_token_latency_milliseconds: Annotated[Int, Field(ge=1, le=60000)] | None = Field(
        default=None, description="Mean time between two tokens that may not be exceeded, in milliseconds."
    )

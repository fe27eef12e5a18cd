"""Autoscaling of stages. Names of fields are those of HorizontalPodAutoscaler v2 where possible."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from epd_operator.api.markers import Int, ListMap, Rule
from epd_operator.api.v1alpha1.base import ApiModel


class AutoscalingMode(StrEnum):
    """What scales the stage: the operator or an external autoscaler."""

    INTERNAL = "Internal"
    EXTERNAL = "External"


class MetricType(StrEnum):
    """Metric that is measured in each pod."""

    REQUESTS = "Requests"
    KV_CACHE_USAGE = "KVCacheUsage"


class Metric(ApiModel):
    """A metric with its target. Of several metrics, the one that needs the most replicas decides."""

    type: MetricType = Field(
        description="Requests: running and waiting requests. KVCacheUsage: usage of the KV cache, in percent."
    )
    target_per_replica: Annotated[Int, Field(ge=1, le=100000)] = Field(
        description="Target per replica: a number of requests, or a percentage."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            expression="self.type != 'KVCacheUsage' || self.targetPerReplica <= 100",
            message="KVCacheUsage is a percentage: targetPerReplica must be at most 100",
            field_path=".targetPerReplica",
        ),
    )


class PolicyType(StrEnum):
    """Unit of a scaling policy."""

    PODS = "Pods"
    PERCENT = "Percent"


class ScalingPolicy(ApiModel):
    """A limit for the change of replicas within a period."""

    type: PolicyType = Field(
        description="Unit of value: replicas, or percent of the replicas at the start of the period."
    )
    value: Annotated[Int, Field(ge=1, le=100000)] = Field(description="Maximum change within the period.")
    period_seconds: Annotated[Int, Field(ge=1, le=1800)] = Field(description="Length of the period, in seconds.")


class PolicySelect(StrEnum):
    """Which of several policies is used."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


Window = Annotated[Int, Field(ge=0, le=3600)]
Policies = Annotated[list[ScalingPolicy], Field(min_length=1, max_length=8)]

_PERIOD_SECONDS = 15
"""Period of the default policies."""


class ScalingRules(ApiModel):
    """Scaling behavior in one direction. The defaults are those of HorizontalPodAutoscaler."""

    stabilization_window_seconds: Window
    tolerance_percent: Annotated[Int, Field(ge=0, le=100)] = Field(
        default=10, description="Deviation from the target that is ignored, in percent."
    )
    select_policy: PolicySelect = Field(
        default=PolicySelect.MAX,
        description="Which of several policies is used: Max, the largest change; Min, the smallest change. "
        "Disabled: no scaling in this direction.",
    )
    policies: Policies


class ScaleUpRules(ScalingRules):
    """Scaling behavior of a stage upwards."""

    stabilization_window_seconds: Window = Field(
        default=0, description="Stabilization window, in seconds: the lowest recommendation in it is used."
    )
    policies: Policies = Field(
        default=[
            ScalingPolicy(type=PolicyType.PODS, value=4, period_seconds=_PERIOD_SECONDS),
            ScalingPolicy(type=PolicyType.PERCENT, value=100, period_seconds=_PERIOD_SECONDS),
        ],
        description="Limits of the scaling speed.",
    )


class ScaleDownRules(ScalingRules):
    """Scaling behavior of a stage downwards."""

    stabilization_window_seconds: Window = Field(
        default=300, description="Stabilization window, in seconds: the highest recommendation in it is used."
    )
    policies: Policies = Field(
        default=[ScalingPolicy(type=PolicyType.PERCENT, value=100, period_seconds=_PERIOD_SECONDS)],
        description="Limits of the scaling speed.",
    )


class Behavior(ApiModel):
    """Scaling behavior of a stage."""

    scale_up: ScaleUpRules = Field(default_factory=ScaleUpRules, description="Scaling up.")
    scale_down: ScaleDownRules = Field(default_factory=ScaleDownRules, description="Scaling down.")


class Panic(ApiModel):
    """Reaction to sudden load: scale up at once, and do not scale down until the load has passed."""

    threshold_percent: Annotated[Int, Field(ge=110, le=1000)] = Field(
        default=200, description="Load at which panic mode starts, in percent of the target."
    )
    window_seconds: Annotated[Int, Field(ge=1, le=3600)] = Field(
        default=60, description="Time after the last panic in which the stage is not scaled down, in seconds."
    )


class Autoscaling(ApiModel):
    """Autoscaling of a stage by its own load."""

    mode: AutoscalingMode = Field(
        default=AutoscalingMode.INTERNAL,
        description="Internal: the operator scales the stage by the metrics of its pods. External: the operator "
        "creates an EPDStageScale with a scale subresource, and a HorizontalPodAutoscaler or KEDA scales it.",
    )
    min_replicas: Annotated[Int, Field(ge=1, le=10000)] = Field(
        default=1,
        description="Minimum number of replicas. At least 1, because without encoders Dynamo withdraws the model, "
        "and text requests fail too.",
    )
    max_replicas: Annotated[Int, Field(ge=1, le=10000)] = Field(description="Maximum number of replicas.")
    metrics: Annotated[list[Metric], Field(min_length=1, max_length=2), ListMap(("type",))] | None = Field(
        default=None, description="Metrics with their targets. Required in mode Internal."
    )
    behavior: Behavior = Field(default_factory=Behavior, description="Scaling behavior of the stage.")
    panic: Panic = Field(default_factory=Panic, description="Reaction to sudden load.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            expression="self.minReplicas <= self.maxReplicas",
            message="minReplicas must not be greater than maxReplicas: lower minReplicas or raise maxReplicas",
            field_path=".minReplicas",
        ),
        Rule(
            expression="self.mode != 'Internal' || has(self.metrics)",
            message="mode Internal needs metrics with targets, for example {type: Requests, targetPerReplica: 8}",
            field_path=".metrics",
        ),
        Rule(
            expression="self.mode != 'External' || !has(self.metrics)",
            message="in mode External, the external autoscaler has its own metrics: remove metrics here",
            field_path=".metrics",
        ),
    )


class RatioBand(ApiModel):
    """Allowed ratio of encoders to PD workers, in topology Disaggregated."""

    min_percent: Annotated[Int, Field(ge=1, le=10000)] = Field(
        default=1, description="Minimum number of encoders per 100 PD workers."
    )
    max_percent: Annotated[Int, Field(ge=1, le=100000)] = Field(
        default=100000, description="Maximum number of encoders per 100 PD workers."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            # The API server validates the default {} of this object before it sets the defaults of its fields.
            expression="!has(self.minPercent) || !has(self.maxPercent) || self.minPercent <= self.maxPercent",
            message="minPercent must not be greater than maxPercent: lower minPercent or raise maxPercent",
            field_path=".minPercent",
        ),
    )


class MetricsSource(StrEnum):
    """Where metrics are read."""

    PODS = "Pods"
    PROMETHEUS = "Prometheus"


class Scaling(ApiModel):
    """Autoscaling settings for all stages."""

    metrics_source: MetricsSource = Field(
        default=MetricsSource.PODS,
        description="Pods: the operator reads the metrics of each pod. Prometheus: the operator queries its "
        "Prometheus server (--prometheus-url, chart value prometheusUrl), for clusters in which it cannot reach the "
        "pods.",
    )

    gpu_budget: Annotated[Int, Field(ge=1, le=100000)] | None = Field(
        default=None,
        description="Maximum number of GPUs of all stages of all revisions together. Unset means no limit.",
    )
    encoders_per_pd: RatioBand = Field(
        default_factory=RatioBand, description="Allowed ratio of encoders to PD workers."
    )
    interval_seconds: Annotated[Int, Field(ge=1, le=300)] = Field(
        default=15, description="Time between two scaling decisions, in seconds."
    )
    stale_after_seconds: Annotated[Int, Field(ge=5, le=3600)] = Field(
        default=60, description="Age at which metrics are ignored as stale, in seconds."
    )
    unschedulable_after_seconds: Annotated[Int, Field(ge=10, le=86400)] = Field(
        default=1200,
        description="Time that pods can be unschedulable before the stage is scaled back to the pods that fit, in "
        "seconds. The default leaves a node autoscaler 20 minutes for a node. It is longer while Events of the pods "
        "report that a node is coming, and 300 seconds at most if they report that none is.",
    )


class ServiceLevel(ApiModel):
    """Latency objectives. If one is missed, the stage that causes the delay is scaled up."""

    time_to_first_token_milliseconds: Annotated[Int, Field(ge=1, le=3600000)] | None = Field(
        default=None, description="Maximum mean time to first token (TTFT), in milliseconds."
    )
    inter_token_latency_milliseconds: Annotated[Int, Field(ge=1, le=60000)] | None = Field(
        default=None, description="Maximum mean inter-token latency (ITL), in milliseconds."
    )

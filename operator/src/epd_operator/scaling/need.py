"""How many replicas the load of a stage needs, calculated as by HorizontalPodAutoscaler v2.

For each metric the sum over ready pods is divided by the target per replica. Of several metrics the largest result
counts.

- Scaling up: replicas that are still starting count as supply. A ready pod without a current sample counts as idle.
- Scaling down: only the spare capacity of ready pods counts. A pod without a current sample, and a pod that is still
  starting, counts as loaded to its target.
- No sample at all: the stage keeps its replicas. If one of two metrics is unknown, the other can only scale the stage
  up.
- Pods that have not become ready in time (see ``state``) do not count as supply, and their last samples are not used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from epd_operator.api.v1alpha1.autoscaling import Autoscaling, Metric, MetricType
from epd_operator.scaling.model import PodLoad, ScalingReason, StageObservation

ROUNDING = 1e-9
"""Tolerance for rounding errors of sums, which must not add a replica."""

SIGNALS = {MetricType.REQUESTS: "requests", MetricType.KV_CACHE_USAGE: "kvCacheUsage"}


@dataclass(frozen=True, kw_only=True)
class Need:
    """The replicas that the load needs.

    Attributes:
        replicas: the number; the current number if the load is unknown.
        known: whether the load could be measured.
        reason: the reason of the number.
        message: the calculation, with numbers, for users.
        signal: metric that decided.
        value: mean of the metric over the ready replicas with a sample.
        target: target of the metric per replica.
        age: age of the oldest sample that was used, in seconds.
        panic: whether the load is above the panic threshold.
    """

    replicas: int
    reason: ScalingReason
    message: str
    known: bool = True
    signal: str | None = None
    value: float | None = None
    target: float | None = None
    age: float | None = None
    panic: bool = False


@dataclass(frozen=True, kw_only=True)
class _Sample:
    """One metric of a stage.

    Attributes:
        metric: the metric and its target.
        values: values of ready pods.
        missing: number of ready pods without a current value.
        starting: number of pods that are not ready and may become ready.
        age: age of the oldest value, in seconds.
        stale: whether some pod had only a value that is too old.
    """

    metric: Metric
    values: tuple[float, ...]
    missing: int
    starting: int
    age: float
    stale: bool

    @property
    def signal(self) -> str:
        return SIGNALS[self.metric.type]

    @property
    def target(self) -> float:
        return float(self.metric.target_per_replica)

    @property
    def total(self) -> float:
        return math.fsum(self.values)

    @property
    def mean(self) -> float:
        return self.total / len(self.values)


def compute_need(
    observation: StageObservation,
    *,
    settings: Autoscaling,
    stale_after: float,
    timed_out_pods: int,
    lost_replicas: int,
) -> Need:
    """The replicas that the load needs, before all rules that limit a change.

    Args:
        observation: the stage.
        settings: its settings; without metrics the load is unknown.
        stale_after: samples older than this are not used, in seconds.
        timed_out_pods: number of pods that have not become ready in time.
        lost_replicas: those of them that are replicas, and not surge pods of a rollout.
    """
    current = observation.replicas
    if observation.metrics_error is not None:
        return _unknown(current, ScalingReason.METRICS_MISSING, observation.metrics_error)
    if not any(pod.ready for pod in observation.pods):
        return _unknown(current, ScalingReason.PODS_PENDING, "no pod is ready yet")
    samples = [
        _sample(observation, metric=metric, stale_after=stale_after, timed_out_pods=timed_out_pods)
        for metric in settings.metrics or ()
    ]
    if not samples:
        return _unknown(current, ScalingReason.METRICS_MISSING, "autoscaling.metrics is empty")
    known = [
        _known(sample, current=current, settings=settings, lost_replicas=lost_replicas)
        for sample in samples
        if sample.values
    ]
    unknown = [
        _unknown_metric(sample, current=current, stale_after=stale_after) for sample in samples if not sample.values
    ]
    if not known:
        return unknown[0]
    largest = max(known, key=lambda need: need.replicas)
    return unknown[0] if unknown and largest.replicas < current else largest


def _sample(observation: StageObservation, *, metric: Metric, stale_after: float, timed_out_pods: int) -> _Sample:
    values: list[float] = []
    ages: list[float] = []
    missing, stale = 0, False
    for pod in observation.pods:
        if not pod.ready:
            continue
        value = _value(pod, metric.type)
        if value is None or pod.measured_at is None:
            missing += 1
        elif observation.at - pod.measured_at > stale_after:
            missing, stale = missing + 1, True
        else:
            values.append(value)
            ages.append(max(0.0, observation.at - pod.measured_at))
    starting = max(0, sum(not pod.ready for pod in observation.pods) - timed_out_pods)
    age = max(ages, default=0.0)
    return _Sample(metric=metric, values=tuple(values), missing=missing, starting=starting, age=age, stale=stale)


def _value(pod: PodLoad, kind: MetricType) -> float | None:
    """A metric of a pod. A value that is not a finite, non-negative number counts as missing."""
    value = pod.requests if kind is MetricType.REQUESTS else pod.kv_cache_percent
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _known(sample: _Sample, *, current: int, settings: Autoscaling, lost_replicas: int) -> Need:
    """The need by one metric that at least one pod reports."""
    replicas = _replicas(sample, current=current, settings=settings, lost_replicas=lost_replicas)
    reason = ScalingReason.WITHIN_TARGET
    if replicas != current:
        reason = ScalingReason.LOAD_ABOVE_TARGET if replicas > current else ScalingReason.LOAD_BELOW_TARGET
    ready = len(sample.values) + sample.missing
    return Need(
        replicas=replicas,
        reason=reason,
        message=_calculation(sample, replicas=replicas, ready=ready, current=current),
        signal=sample.signal,
        value=sample.mean,
        target=sample.target,
        age=sample.age,
        panic=sample.total * 100 >= ready * sample.target * settings.panic.threshold_percent,
    )


def _replicas(sample: _Sample, *, current: int, settings: Autoscaling, lost_replicas: int) -> int:
    """Replicas that bring the metric to its target; the current number if the metric is within the tolerance."""
    target, total = sample.target, sample.total
    if total > len(sample.values) * target:
        supply = max(1, current - lost_replicas)
        tolerated = 1 + settings.behavior.scale_up.tolerance_percent / 100
        if total <= supply * target * tolerated + ROUNDING:
            return current
        return max(current, _ceil(total / target) + lost_replicas)
    # Pods without a value count as loaded to their target.
    unmeasured = sample.missing + sample.starting
    assumed = total + unmeasured * target
    tolerated = 1 - settings.behavior.scale_down.tolerance_percent / 100
    if assumed >= (len(sample.values) + unmeasured) * target * tolerated - ROUNDING:
        return current
    return min(current, _ceil(assumed / target))


def _ceil(value: float) -> int:
    return math.ceil(value - ROUNDING)


def _calculation(sample: _Sample, *, replicas: int, ready: int, current: int) -> str:
    measured = f"{sample.signal} per ready replica: {sample.mean:.1f}, target {sample.target:g}"
    missing = f", {sample.missing} without metrics" if sample.missing else ""
    return f"{measured} ({ready} of {current} ready{missing}); replicas needed: {replicas}"


def _unknown_metric(sample: _Sample, *, current: int, stale_after: float) -> Need:
    """The need by one metric that no pod reports."""
    reason, cause = ScalingReason.METRICS_MISSING, f"no ready pod reports the metric {sample.signal}"
    if sample.stale:
        reason, cause = (
            ScalingReason.METRICS_STALE,
            f"all values of the metric {sample.signal} are older than {stale_after:g} s",
        )
    return _unknown(current, reason, cause, signal=sample.signal, target=sample.target)


def _unknown(
    current: int, reason: ScalingReason, cause: str, *, signal: str | None = None, target: float | None = None
) -> Need:
    """The need if the load is unknown: the current number."""
    message = f"{cause}; replicas stay at {current}"
    return Need(replicas=current, known=False, reason=reason, message=message, signal=signal, target=target)

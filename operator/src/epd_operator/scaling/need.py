"""How many replicas the load of a stage asks for, by the arithmetic of HorizontalPodAutoscaler v2.

For each metric the sum over ready pods is divided by the target per replica; of several metrics the largest counts.

- Growing: replicas that are still starting are supply, and a pod without a fresh sample counts as idle.
- Shrinking: only what ready pods have to spare counts. A pod without a fresh sample, and one that is still starting,
  counts as loaded to its target.
- No sample at all: nothing is known, the stage stays as it is. Where one of two metrics is unknown, the other may
  only make the stage grow.
- Stuck pods (not ready for too long, see ``state``) are no supply, and what they last reported does not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from epd_operator.api.v1alpha1.autoscaling import Autoscaling, Metric, MetricType
from epd_operator.scaling.model import PodLoad, ScalingReason, StageObservation

ROUNDING = 1e-9
"""Sums of floating-point numbers must not ask for a replica of their own."""

SIGNALS = {MetricType.REQUESTS: "requests", MetricType.KV_CACHE_USAGE: "kvCacheUsage"}


@dataclass(frozen=True, kw_only=True)
class Need:
    """What the load asks for.

    Attributes:
        replicas: what it asks for; the present number where nothing is known.
        known: whether it could be measured.
        reason: why.
        message: the same, with numbers.
        signal: metric that decided.
        value: the metric per ready replica with a sample.
        target: what it should be.
        age: age of the oldest sample that counted, in seconds.
        panic: whether the load is beyond the panic threshold.
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
    """A metric of a stage: the values of its ready pods, how many of those have none, and how many are not ready."""

    metric: Metric
    values: tuple[float, ...]
    silent: int
    unready: int
    age: float
    stale: bool

    @property
    def target(self) -> float:
        return float(self.metric.target_per_replica)

    @property
    def total(self) -> float:
        return math.fsum(self.values)


def assess(observation: StageObservation, *, settings: Autoscaling, stale_after: float, stuck: int) -> Need:
    """What the load asks for, before any rule of speed or safety.

    Args:
        observation: the stage.
        settings: its settings; a stage without metrics is never known.
        stale_after: age from which on a sample does not count, in seconds.
        stuck: pods that are no supply to wait for.
    """
    if observation.obstacle is not None:
        return Need(
            replicas=observation.replicas,
            known=False,
            reason=ScalingReason.METRICS_MISSING,
            message=f"{observation.obstacle}: holding {observation.replicas}",
        )
    if not any(pod.ready for pod in observation.pods):
        return Need(
            replicas=observation.replicas,
            known=False,
            reason=ScalingReason.PODS_PENDING,
            message=f"none of {observation.replicas} pods is ready yet",
        )
    samples = [_sample(observation, metric=m, stale_after=stale_after) for m in settings.metrics or ()]
    needs = [_need(s, observation=observation, settings=settings, stuck=stuck) for s in samples if s.values]
    unknown = [_unknown(s, observation=observation, stale_after=stale_after) for s in samples if not s.values]
    if not needs:
        return unknown[0] if unknown else _no_metric(observation)
    most = max(needs, key=lambda need: need.replicas)
    if unknown and most.replicas < observation.replicas:
        return unknown[0]
    return most


def _sample(observation: StageObservation, *, metric: Metric, stale_after: float) -> _Sample:
    values: list[float] = []
    ages: list[float] = []
    silent, stale = 0, False
    for pod in observation.pods:
        if not pod.ready:
            continue
        value = _value(pod, metric.type)
        if value is None or pod.measured_at is None:
            silent += 1
        elif observation.at - pod.measured_at > stale_after:
            silent, stale = silent + 1, True
        else:
            values.append(value)
            ages.append(max(0.0, observation.at - pod.measured_at))
    unready = sum(not pod.ready for pod in observation.pods)
    age = max(ages, default=0.0)
    return _Sample(metric=metric, values=tuple(values), silent=silent, unready=unready, age=age, stale=stale)


def _value(pod: PodLoad, kind: MetricType) -> float | None:
    """A metric of a pod; what is not a number counts as missing."""
    value = pod.requests if kind is MetricType.REQUESTS else pod.kv_cache_percent
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _need(sample: _Sample, *, observation: StageObservation, settings: Autoscaling, stuck: int) -> Need:
    target, total, current = sample.target, sample.total, observation.replicas
    replicas, reason = current, ScalingReason.WITHIN_TARGET
    if total > len(sample.values) * target:
        supply = max(1, current - stuck)
        limit = 1 + settings.behavior.scale_up.tolerance_percent / 100
        if total > supply * target * limit + ROUNDING:
            replicas = max(current, _ceil(total / target) + stuck)
    else:
        absent = sample.silent + max(0, sample.unready - stuck)
        limit = 1 - settings.behavior.scale_down.tolerance_percent / 100
        filled = total + absent * target
        if filled < (len(sample.values) + absent) * target * limit - ROUNDING:
            replicas = min(current, _ceil(filled / target))
    if replicas != current:
        reason = ScalingReason.LOAD_ABOVE_TARGET if replicas > current else ScalingReason.LOAD_BELOW_TARGET
    ready = len(sample.values) + sample.silent
    return Need(
        replicas=replicas,
        reason=reason,
        message=_words(sample, replicas=replicas, ready=ready, current=current),
        signal=SIGNALS[sample.metric.type],
        value=total / len(sample.values),
        target=target,
        age=sample.age,
        panic=total * 100 >= ready * target * settings.panic.threshold_percent,
    )


def _ceil(value: float) -> int:
    return math.ceil(value - ROUNDING)


def _words(sample: _Sample, *, replicas: int, ready: int, current: int) -> str:
    mean = sample.total / len(sample.values)
    seen = f"{SIGNALS[sample.metric.type]} {mean:.1f} per ready replica, target {sample.target:g}"
    silent = f", {sample.silent} without metrics" if sample.silent else ""
    counted = f"{ready} of {current} ready{silent}"
    asks = "fits" if replicas == current else f"asks for {replicas}"
    return f"{seen} ({counted}): {asks}"


def _unknown(sample: _Sample, *, observation: StageObservation, stale_after: float) -> Need:
    name = SIGNALS[sample.metric.type]
    if sample.stale:
        reason, words = ScalingReason.METRICS_STALE, f"metric {name} is older than {stale_after:g} s in every ready pod"
    else:
        reason, words = ScalingReason.METRICS_MISSING, f"no ready pod gives the metric {name}"
    return Need(
        replicas=observation.replicas,
        known=False,
        reason=reason,
        message=f"{words}: holding {observation.replicas}",
        signal=name,
        target=sample.target,
    )


def _no_metric(observation: StageObservation) -> Need:
    return Need(
        replicas=observation.replicas,
        known=False,
        reason=ScalingReason.METRICS_MISSING,
        message=f"no metric is configured: holding {observation.replicas}",
    )

"""Metrics about scaling decisions and about reading metrics pages."""

from __future__ import annotations

from collections.abc import Container

from prometheus_client import CollectorRegistry, Counter, Gauge

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.fetch import PageOutcome
from epd_operator.objects.identity import Key, StageKey
from epd_operator.scaling.model import Decision


class PageMetrics:
    """Counts metrics pages by outcome."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.pages = Counter(
            "epd_operator_scraped_pages_total",
            "Metrics pages of pods, by stage and outcome; only the outcome ok has values.",
            ["stage", "outcome"],
            registry=registry,
        )

    def observe_page(self, stage: StageName, outcome: PageOutcome) -> None:
        """Count a page."""
        self.pages.labels(stage=stage.value, outcome=outcome.value).inc()


_LABELS = ("namespace", "deployment", "stage")


class ScalingMetrics:
    """Measurements and decisions, by stage. Series of stages that are deleted or not scaled any more are removed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"epd_operator_scaling_{name}", text, _LABELS, registry=registry)

        self._current = gauge("current_replicas", "Replicas of the stage before the last decision.")
        self._desired = gauge("desired_replicas", "Replicas of the stage after the last decision.")
        self._value = gauge("signal_value", "Value per ready replica of the metric that decided.")
        self._target = gauge("signal_target", "Target per replica of the metric that decided.")
        self._age = gauge("metric_age_seconds", "Age of the oldest sample that was used.")
        self._decisions = Counter(
            "epd_operator_scaling_decisions_total",
            "Scaling decisions, by stage and reason.",
            (*_LABELS, "reason"),
            registry=registry,
        )
        self._reasons: dict[tuple[Key, StageKey], set[str]] = {}

    def show(self, key: Key, decision: Decision) -> None:
        """Export a decision."""
        labels = (key.namespace, key.name, decision.stage.name.value)
        self._current.labels(*labels).set(decision.current)
        self._desired.labels(*labels).set(decision.desired)
        for series, value in (
            (self._value, decision.value),
            (self._target, decision.target),
            (self._age, decision.metric_age_seconds),
        ):
            # A value that could not be measured is NaN, never 0.
            series.labels(*labels).set(float("nan") if value is None else value)
        self._decisions.labels(*labels, decision.reason.value).inc()
        self._reasons.setdefault((key, decision.stage), set()).add(decision.reason.value)

    def forget(self, key: Key, *, but: Container[StageKey] = ()) -> None:
        """Remove the series of a deployment, except those of the stages in `but`."""
        for known in [known for known in self._reasons if known[0] == key and known[1] not in but]:
            labels = (key.namespace, key.name, known[1].name.value)
            for series in (self._current, self._desired, self._value, self._target, self._age):
                series.remove(*labels)
            for reason in self._reasons.pop(known):
                self._decisions.remove(*labels, reason)

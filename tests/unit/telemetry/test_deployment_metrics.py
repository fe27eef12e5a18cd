"""Metrics of objects are bounded for any content of an object."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from epd_operator.objects.identity import Key
from epd_operator.telemetry.deployment_metrics import MAX_LABEL, DeploymentMetrics, DeploymentState

KEY = Key("serving", "qwen")


def condition(reason: str, *, kind: str = "Ready", status: str = "False") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": "text"}


def samples(metrics: DeploymentMetrics) -> list[tuple[str, dict[str, str], float]]:
    """The samples, as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(metrics)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]


def exported(status: dict[str, Any], *, model: str = "m") -> list[tuple[str, dict[str, str], float]]:
    metrics = DeploymentMetrics()
    metrics.set_state(KEY, DeploymentState(generation=3, model=model, status=status))
    return samples(metrics)


def test_only_the_current_state_of_a_condition_is_exported() -> None:
    metrics = DeploymentMetrics()
    for reason in ("PodsStarting", "ImagePullFailed"):
        metrics.set_state(KEY, DeploymentState(generation=1, status={"conditions": [condition(reason)]}))
    (found,) = [labels["reason"] for name, labels, _ in samples(metrics) if name == "epd_deployment_condition"]
    assert found == "ImagePullFailed"


@pytest.mark.parametrize("model", ["x" * 512, "a\nb", 'quote " and \\', "\ud800", "\u2028", "é" * 300])
def test_the_name_of_a_model_is_a_label_of_one_line_and_bounded_length(model: str) -> None:
    (label,) = [labels["model"] for name, labels, _ in exported({}, model=model) if name == "epd_deployment_info"]
    assert len(label) <= MAX_LABEL
    assert "\n" not in label


def test_an_object_without_a_status_is_exported_as_not_observed() -> None:
    values = {name: value for name, _, value in exported({})}
    assert values == {
        "epd_deployment_info": 1,
        "epd_deployment_generation": 3,
        "epd_deployment_observed_generation": 0,
    }


def test_metrics_can_be_written_in_prometheus_and_openmetrics_format() -> None:
    registry = CollectorRegistry()
    metrics = DeploymentMetrics()
    registry.register(metrics)
    metrics.set_state(KEY, DeploymentState(generation=1, status={"conditions": [condition("PodsStarting")]}))
    assert b'reason="PodsStarting"' in openmetrics.generate_latest(registry)
    assert b'reason="PodsStarting"' in generate_latest(registry)


def test_the_last_status_is_exported_until_a_reconcile_has_computed_another() -> None:
    metrics = DeploymentMetrics()
    metrics.set_state(KEY, DeploymentState(generation=1, model="m", status={"observedGeneration": 1}))
    metrics.start_reconcile(KEY, generation=2, status={"observedGeneration": 0})
    values = {name: value for name, _, value in samples(metrics)}
    assert values["epd_deployment_generation"] == 2
    assert values["epd_deployment_observed_generation"] == 1

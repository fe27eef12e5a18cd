"""Values that queries match on exist: an alert about a renamed reason would never fire."""

from __future__ import annotations

import re

import pytest

from epd_operator.loads.fetch import PageOutcome
from epd_operator.plan.status.reasons import ConditionType, Reason
from epd_operator.scaling.model import ScalingReason
from monitoring.charted import rules
from monitoring.dashboards.__main__ import DASHBOARDS
from monitoring.prometheus import Prometheus
from monitoring.promql import matched_values

KNOWN = {
    ("epd_deployment_condition", "type"): set(ConditionType),
    ("epd_deployment_condition", "status"): {"True", "False", "Unknown"},
    ("epd_deployment_condition", "reason"): set(Reason),
    ("epd_deployment_stage_replicas", "state"): {"desired", "ready", "updated"},
    ("epd_operator_scaling_decisions_total", "reason"): set(ScalingReason),
    ("epd_operator_scraped_pages_total", "outcome"): set(PageOutcome),
    # As the operator counts a reconcile that raised an error.
    ("epd_operator_reconcile_duration_seconds_count", "outcome"): {"error"},
    ("epd_operator_api_requests_total", "status"): {"0", "403", "429", "5.."},
    # As dynamo/prometheus_names.py of the worker environment lists them; the NIXL page lists its errors.
    ("dynamo_frontend_requests_total", "error_type"): {"internal", "overload", "response_timeout", "unavailable"},
    ("agent_errors_total", "status"): {"no_telemetry"},
    # Prometheus 3 writes it as a decimal number, Prometheus 2 as the page has it.
    ("dynamo_frontend_images_per_request_bucket", "le"): {"0", "0.0"},
    ("dynamo_component_request_duration_seconds", "dynamo_component"): {"encode"},
    ("dynamo_component_request_duration_seconds", "dynamo_endpoint"): {"generate"},
    ("dynamo_component_inflight_requests", "dynamo_component"): {"encode"},
    ("dynamo_component_inflight_requests", "dynamo_endpoint"): {"generate"},
    ("up", "job"): {"epd-operator", "epd-workers"},
}
CHOSEN = {"namespace", "deployment"}
"""Labels whose value the user chooses; "" where any value matches."""


def expressions() -> list[str]:
    """All expressions of rules and dashboards."""
    panels = [panel for dashboard in DASHBOARDS.values() for panel in dashboard.render()["panels"]]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return sorted({rule["expr"] for rule in rules()} | {expr.replace("$__rate_interval", "5m") for expr in queries})


@pytest.mark.parametrize("expr", expressions())
def test_every_value_that_a_query_matches_on_exists(prometheus: Prometheus, expr: str) -> None:
    for metric, label, value in matched_values(prometheus, expr):
        if label not in CHOSEN:
            name = metric if (metric, label) in KNOWN else re.sub(r"_(sum|count|bucket)$", "", metric)
            assert value in KNOWN[name, label], f"{metric} {label}={value}"

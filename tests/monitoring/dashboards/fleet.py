"""The dashboard of all EPDDeployments and of the operator."""

from __future__ import annotations

from epd_operator.scaling.model import ScalingReason
from monitoring.dashboards.grafana import AMBER, GREEN, RED, Dashboard, Panel, Query, Row, Variable

OF = 'namespace=~"$namespace"'
RATE = "$__rate_interval"
OPERATOR = 'job="epd-operator"'
STAGE = "{{namespace}}/{{deployment}} {{stage}}"
OBJECT = "{{namespace}}/{{deployment}}"
NEED_ACTION = (
    ScalingReason.AT_MAXIMUM,
    ScalingReason.GPU_BUDGET,
    ScalingReason.METRICS_MISSING,
    ScalingReason.METRICS_STALE,
    ScalingReason.PODS_REFUSED,
    ScalingReason.QUOTA_EXCEEDED,
    ScalingReason.UNSCHEDULABLE,
)
"""Reasons of scaling decisions that do not end without a person, if the load stays high."""


def _count(expr: str) -> list[Query]:
    """A number that is 0 where nothing matches."""
    return [Query(expr=f"count({expr}) or vector(0)")]


def _condition(matchers: str) -> str:
    return f"epd_deployment_condition{{{OF}, {matchers}}}"


_READY = _condition('type="Ready"')


def _state(title: str, description: str, queries: list[Query], *, bad: str = GREEN, unit: str = "short") -> Panel:
    return Panel(
        title=title,
        description=description,
        queries=queries,
        kind="stat",
        unit=unit,
        width=4,
        height=4,
        good=[(GREEN, None)] if bad == GREEN else [(GREEN, None), (bad, 1)],
    )


def _p(quantile: float, metric: str, *, by: str = "", where: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({quantile}, sum by ({labels}) (rate({metric}_bucket{{{where}}}[{RATE}])))"


_OBJECTS = Row(
    title="EPDDeployments",
    panels=[
        _state("EPDDeployments", "EPDDeployments in the selected namespaces.", _count(f"epd_deployment_info{{{OF}}}")),
        _state(
            "Not available",
            "EPDDeployments with a stage without ready pods. Their requests fail.",
            _count(_condition('type="Available", status!="True"')),
            bad=RED,
        ),
        _state(
            "Not ready",
            "EPDDeployments that do not match their spec yet: rollout, start, or a problem.",
            _count(_condition('type="Ready", status!="True"')),
            bad=AMBER,
        ),
        _state(
            "Stalled",
            "EPDDeployments that the operator cannot reconcile without manual action.",
            _count(_condition('type="Stalled", status="True"')),
            bad=RED,
        ),
        _state(
            "Changes not observed",
            "EPDDeployments whose last change has not been reconciled successfully.",
            _count(
                f"epd_deployment_generation{{{OF}}} > on (namespace, deployment) epd_deployment_observed_generation"
            ),
            bad=AMBER,
        ),
        _state(
            "Pods missing",
            "Desired pods that are not ready, over all stages.",
            [
                Query(
                    expr=f'sum(epd_deployment_stage_replicas{{{OF}, state="desired"}})'
                    f' - sum(epd_deployment_stage_replicas{{{OF}, state="ready"}})'
                )
            ],
            bad=AMBER,
        ),
        Panel(
            title="Conditions",
            description="Condition Ready of each EPDDeployment, with reason, topology and model.",
            kind="table",
            width=12,
            height=9,
            queries=[
                Query(
                    expr=f"max by (namespace, deployment, status, reason) ({_READY})"
                    " * on (namespace, deployment) group_left (topology, model)"
                    " max by (namespace, deployment, topology, model) (epd_deployment_info)"
                )
            ],
            hidden=["Value"],
            columns={"status": "ready"},
        ),
        Panel(
            title="Replicas",
            description="Desired pods, ready pods and pods of the current template, for each stage.",
            kind="table",
            width=12,
            height=9,
            queries=[
                Query(
                    expr="max by (namespace, deployment, stage)"
                    f' (epd_deployment_stage_replicas{{{OF}, state="{state}"}})'
                )
                for state in ("desired", "ready", "updated")
            ],
            columns={"Value #A": "desired", "Value #B": "ready", "Value #C": "updated"},
        ),
    ],
)

_TRAFFIC = Row(
    title="Traffic",
    panels=[
        Panel(
            title="Requests",
            description="Requests per second that frontends have finished.",
            unit="reqps",
            queries=[
                Query(
                    expr=f"sum by (namespace, deployment) (rate(dynamo_frontend_requests_total{{{OF},"
                    f' deployment!=""}}[{RATE}]))',
                    legend=OBJECT,
                )
            ],
        ),
        Panel(
            title="Time to first token (TTFT), P95",
            description="Time until the first token. 5 of 100 requests take longer.",
            unit="s",
            queries=[
                Query(
                    expr=_p(
                        0.95,
                        "dynamo_frontend_time_to_first_token_seconds",
                        by="namespace, deployment",
                        where=f'{OF}, deployment!=""',
                    ),
                    legend=OBJECT,
                )
            ],
        ),
        Panel(
            title="Inter-token latency (ITL), P95",
            description="Time between two tokens of an answer. 5 of 100 take longer.",
            unit="s",
            queries=[
                Query(
                    expr=_p(
                        0.95,
                        "dynamo_frontend_inter_token_latency_seconds",
                        by="namespace, deployment",
                        where=f'{OF}, deployment!=""',
                    ),
                    legend=OBJECT,
                )
            ],
        ),
    ],
)

_SCALING = Row(
    title="Scaling",
    panels=[
        Panel(
            title="Desired replicas",
            description="The last scaling decision for each scaled stage.",
            queries=[
                Query(
                    expr=f"max by (namespace, deployment, stage) (epd_operator_scaling_desired_replicas{{{OF}}})",
                    legend=STAGE,
                )
            ],
        ),
        Panel(
            title="Load against target",
            description="Deciding metric per ready replica, as a share of its target. A stage scales up above 110 %.",
            unit="percentunit",
            queries=[
                Query(
                    expr="max by (namespace, deployment, stage)"
                    f" (epd_operator_scaling_signal_value{{{OF}}} / epd_operator_scaling_signal_target{{{OF}}})",
                    legend=STAGE,
                )
            ],
        ),
        Panel(
            title="Scaling decisions",
            description=f"Scaling decisions by reason. Need manual action: {', '.join(NEED_ACTION)}.",
            unit="ops",
            stack="normal",
            queries=[
                Query(
                    expr=f"sum by (reason) (rate(epd_operator_scaling_decisions_total{{{OF}}}[{RATE}]))",
                    legend="{{reason}}",
                )
            ],
        ),
        Panel(
            title="Age of metrics",
            description="Age of the oldest sample used in the last decision. No line: no metrics.",
            unit="s",
            width=12,
            queries=[
                Query(
                    expr=f"max by (namespace, deployment, stage) (epd_operator_scaling_metric_age_seconds{{{OF}}})",
                    legend=STAGE,
                )
            ],
        ),
        Panel(
            title="Metrics pages read",
            description="Metrics pages of pods that the operator reads for scaling, by outcome. With any outcome but"
            " ok, the pod has no values.",
            unit="ops",
            width=12,
            stack="normal",
            queries=[
                Query(
                    expr=f"sum by (stage, outcome) (rate(epd_operator_scraped_pages_total[{RATE}]))",
                    legend="{{stage}} {{outcome}}",
                )
            ],
        ),
    ],
)

_OPERATOR = Row(
    title="Operator",
    panels=[
        _state("Operators up", "Operator pods that Prometheus can reach.", _count(f"up{{{OPERATOR}}} == 1")),
        Panel(
            title="Leader",
            description="The leader is 1, standbys are 0. There must be one leader at any time.",
            kind="stat",
            width=8,
            height=4,
            queries=[Query(expr="epd_operator_leader", legend="{{pod}}")],
            text="value_and_name",
        ),
        Panel(
            title="Version",
            description="Versions of the running operator pods.",
            kind="stat",
            width=4,
            height=4,
            queries=[Query(expr="count by (version) (epd_operator_build_info)", legend="{{version}}")],
            text="name",
        ),
        _state(
            "Time since last resync",
            "Time since all objects were last listed. A resync is due every five minutes.",
            [Query(expr="max(epd_operator_resync_age_seconds)")],
            unit="s",
        ),
        _state(
            "Reconcile overdue",
            "How long the oldest due reconcile has been waiting in the queue.",
            [Query(expr="max(epd_operator_queue_overdue_seconds)")],
            unit="s",
        ),
        Panel(
            title="Reconciles",
            description="Reconciles of EPDDeployments by outcome.",
            unit="ops",
            stack="normal",
            queries=[
                Query(
                    expr=f"sum by (outcome) (rate(epd_operator_reconcile_duration_seconds_count[{RATE}]))",
                    legend="{{outcome}}",
                )
            ],
        ),
        Panel(
            title="Reconcile duration",
            description="Time from taking an EPDDeployment from the queue to the end of its reconcile.",
            unit="s",
            queries=[
                Query(expr=_p(quantile, "epd_operator_reconcile_duration_seconds"), legend=name)
                for name, quantile in (("P50", 0.5), ("P95", 0.95))
            ],
        ),
        Panel(
            title="Failed reconciles",
            description="Failed reconciles by type of error. Unexpected is a bug in the operator.",
            unit="ops",
            stack="normal",
            queries=[
                Query(expr=f"sum by (error) (rate(epd_operator_reconcile_errors_total[{RATE}]))", legend="{{error}}")
            ],
        ),
        Panel(
            title="Queue",
            description="EPDDeployments that wait for a reconcile or are being reconciled.",
            queries=[Query(expr="max by (pod) (epd_operator_queue_depth)", legend="{{pod}}")],
        ),
        Panel(
            title="Queue wait time",
            description="Time from when a reconcile is due until it starts.",
            unit="s",
            queries=[
                Query(expr=_p(quantile, "epd_operator_queue_wait_seconds"), legend=name)
                for name, quantile in (("P50", 0.5), ("P95", 0.95))
            ],
        ),
        Panel(
            title="Writes",
            description="Objects that reconciles wrote or deleted. In the settled state, there are no writes.",
            unit="wps",
            queries=[Query(expr=f"sum(rate(epd_operator_reconcile_writes_total[{RATE}]))", legend="writes")],
        ),
        Panel(
            title="Requests to the API server",
            description="Requests by verb, without watches.",
            unit="reqps",
            stack="normal",
            queries=[Query(expr=f"sum by (verb) (rate(epd_operator_api_requests_total[{RATE}]))", legend="{{verb}}")],
        ),
        Panel(
            title="API server responses",
            description="Responses by HTTP status. 0 means no response. 404 and 409 are normal.",
            unit="reqps",
            stack="normal",
            queries=[
                Query(expr=f"sum by (status) (rate(epd_operator_api_requests_total[{RATE}]))", legend="{{status}}")
            ],
        ),
        Panel(
            title="API server request duration, P95",
            description="Time until the response was read, by verb.",
            unit="s",
            queries=[
                Query(
                    expr=_p(0.95, "epd_operator_api_request_duration_seconds", by="verb"),
                    legend="{{verb}}",
                )
            ],
        ),
        Panel(
            title="Event loop lag",
            description="Delay of the operator's event loop. Above one second, the operator can lose its Lease.",
            unit="s",
            width=12,
            queries=[Query(expr="max by (pod) (epd_operator_event_loop_lag_seconds)", legend="{{pod}}")],
        ),
        Panel(
            title="Kubernetes Events",
            description="Events by reason and outcome: written, merged, dropped or failed.",
            unit="ops",
            width=12,
            stack="normal",
            queries=[
                Query(
                    expr=f"sum by (reason, outcome) (rate(epd_operator_events_total[{RATE}]))",
                    legend="{{reason}} {{outcome}}",
                )
            ],
        ),
    ],
)

FLEET = Dashboard(
    uid="epd-fleet",
    title="EPD: fleet and operator",
    description="All EPDDeployments, how their stages are scaled, and the health of the operator.",
    variables=[Variable(name="namespace", metric="epd_deployment_info", several=True)],
    rows=[_OBJECTS, _TRAFFIC, _SCALING, _OPERATOR],
    links=[("One EPDDeployment", "/d/epd-deployment")],
)

"""All EPDDeployments, and the operator."""

from __future__ import annotations

from monitoring.dashboards.grafana import AMBER, GREEN, RED, Dashboard, Panel, Query, Row, Variable

OF = 'namespace=~"$namespace"'
RATE = "$__rate_interval"
OPERATOR = 'job="epd-operator"'
STAGE = "{{namespace}}/{{deployment}} {{stage}}"
OBJECT = "{{namespace}}/{{deployment}}"


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
        _state("EPDDeployments", "All of the chosen namespaces.", _count(f"epd_deployment_info{{{OF}}}")),
        _state(
            "Not available",
            "A stage has no ready pod, so requests fail.",
            _count(_condition('type="Available", status!="True"')),
            bad=RED,
        ),
        _state(
            "Not ready",
            "Something is not yet as the spec asks: a rollout, a start, or a problem.",
            _count(_condition('type="Ready", status!="True"')),
            bad=AMBER,
        ),
        _state(
            "Stalled",
            "The operator cannot go on without a person.",
            _count(_condition('type="Stalled", status="True"')),
            bad=RED,
        ),
        _state(
            "Changes not observed",
            "Specs that no pass has ended well with since they changed.",
            _count(
                f"epd_deployment_generation{{{OF}}} > on (namespace, deployment) epd_deployment_observed_generation"
            ),
            bad=AMBER,
        ),
        _state(
            "Pods missing",
            "Pods that are desired but not ready, over all stages.",
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
            description="The condition Ready of each EPDDeployment, with its reason, topology and model.",
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
            description="Pods of each stage: what the operator wants, what is ready, what has the current template.",
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
            description="Requests that frontends finished.",
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
            title="Time to the first token, P95",
            description="What clients wait for the first token; 5 of 100 requests wait longer.",
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
            title="Time between tokens, P95",
            description="Between two tokens of an answer; 5 of 100 take longer.",
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
            description="The last decision for each stage that is scaled.",
            queries=[
                Query(
                    expr=f"max by (namespace, deployment, stage) (epd_operator_scaling_desired_replicas{{{OF}}})",
                    legend=STAGE,
                )
            ],
        ),
        Panel(
            title="Load against target",
            description="The deciding metric per ready replica, as a share of its target. Above 110 % a stage grows.",
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
            title="Decisions",
            description="Decisions by reason. AtMaximum, MetricsMissing and Unschedulable ask for a person.",
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
            description="Age of the oldest sample that counted in the last decision. No line: nothing was measured.",
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
            title="Pages read",
            description="Metrics pages of pods that the operator reads to scale, by outcome. All but ok leave a pod"
            " without values.",
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
        _state("Operators up", "Pods of the operator that Prometheus reaches.", _count(f"up{{{OPERATOR}}} == 1")),
        Panel(
            title="Leader",
            description="The pod that works; the others stand by. One at any time.",
            kind="stat",
            width=8,
            height=4,
            queries=[Query(expr="epd_operator_leader", legend="{{pod}}")],
            text="value_and_name",
        ),
        Panel(
            title="Version",
            description="Versions of the operator that run.",
            kind="stat",
            width=4,
            height=4,
            queries=[Query(expr="count by (version) (epd_operator_build_info)", legend="{{version}}")],
            text="name",
        ),
        _state(
            "Since the last resync",
            "Time since all objects were last looked at. One resync is due every five minutes.",
            [Query(expr="max(epd_operator_resync_age_seconds)")],
            unit="s",
        ),
        _state(
            "Overdue",
            "How long the EPDDeployment that waits longest has been due.",
            [Query(expr="max(epd_operator_queue_overdue_seconds)")],
            unit="s",
        ),
        Panel(
            title="Passes",
            description="Passes over EPDDeployments by outcome.",
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
            title="Duration of a pass",
            description="From taking an EPDDeployment out of the queue to the end of its pass.",
            unit="s",
            queries=[
                Query(expr=_p(quantile, "epd_operator_reconcile_duration_seconds"), legend=name)
                for name, quantile in (("P50", 0.5), ("P95", 0.95))
            ],
        ),
        Panel(
            title="Failed passes",
            description="By the kind of the error. Unexpected is a fault of the operator.",
            unit="ops",
            stack="normal",
            queries=[
                Query(expr=f"sum by (error) (rate(epd_operator_reconcile_errors_total[{RATE}]))", legend="{{error}}")
            ],
        ),
        Panel(
            title="Queue",
            description="EPDDeployments that wait for a pass or are in one.",
            queries=[Query(expr="max by (pod) (epd_operator_queue_depth)", legend="{{pod}}")],
        ),
        Panel(
            title="Wait in the queue",
            description="How long an EPDDeployment was due until its pass began.",
            unit="s",
            queries=[
                Query(expr=_p(quantile, "epd_operator_queue_wait_seconds"), legend=name)
                for name, quantile in (("P50", 0.5), ("P95", 0.95))
            ],
        ),
        Panel(
            title="Writes",
            description="Objects that passes wrote or deleted. Nothing is written while all is settled.",
            unit="wps",
            queries=[Query(expr=f"sum(rate(epd_operator_reconcile_writes_total[{RATE}]))", legend="writes")],
        ),
        Panel(
            title="Requests to the API server",
            description="By verb, without watches.",
            unit="reqps",
            stack="normal",
            queries=[Query(expr=f"sum by (verb) (rate(epd_operator_api_requests_total[{RATE}]))", legend="{{verb}}")],
        ),
        Panel(
            title="Answers of the API server",
            description="By HTTP status; 0 means no answer. 404 and 409 are part of normal work.",
            unit="reqps",
            stack="normal",
            queries=[
                Query(expr=f"sum by (status) (rate(epd_operator_api_requests_total[{RATE}]))", legend="{{status}}")
            ],
        ),
        Panel(
            title="Duration of a request to the API server, P95",
            description="Until the answer was read, by verb.",
            unit="s",
            queries=[
                Query(
                    expr=_p(0.95, "epd_operator_api_request_duration_seconds", by="verb"),
                    legend="{{verb}}",
                )
            ],
        ),
        Panel(
            title="Lag of the event loop",
            description="How late the operator's event loop is. Beyond a second it may lose its Lease.",
            unit="s",
            width=12,
            queries=[Query(expr="max by (pod) (epd_operator_event_loop_lag_seconds)", legend="{{pod}}")],
        ),
        Panel(
            title="Kubernetes Events",
            description="Events by reason and by what became of them: written, merged, dropped or failed.",
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

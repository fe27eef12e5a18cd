"""Monitors, rules and dashboards of the chart: prometheus-operator and Prometheus accept them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import COMPONENT_LABEL, DEPLOYMENT_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from epd_operator.plan.pods.process import TELEMETRY_PORT
from monitoring.charted import RefusedError, of_kind, render
from monitoring.programs import promtool, write_crds
from monitoring.prometheus import Prometheus
from monitoring.world import OBJECTS, SYSTEM, Fleet
from support.apiserver import ApiServer

PLURALS = {"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"}


@pytest.fixture(scope="session")
def operator_api(bare_api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> ApiServer:
    """The API server with the CRDs of prometheus-operator that the chart needs."""
    folder = tmp_path_factory.mktemp("crds")
    write_crds(folder)
    for plural in PLURALS.values():
        crd = yaml.safe_load((folder / f"monitoring.coreos.com_{plural}.yaml").read_text())
        bare_api_server.install_crd(crd)
    return bare_api_server


def monitoring(**values: Any) -> list[dict[str, Any]]:
    return [d for d in render({"monitoring": values}) if d["kind"] in {*PLURALS, "ConfigMap"}]


def test_nothing_is_rendered_by_default() -> None:
    assert monitoring() == []


def dry_run(server: ApiServer, document: dict[str, Any]) -> Any:
    path = f"/apis/monitoring.coreos.com/v1/namespaces/default/{PLURALS[document['kind']]}"
    moved = {**document, "metadata": {**document["metadata"], "namespace": "default"}}
    return server.client.create(path, moved, dry_run=True)


def test_the_crds_of_prometheus_operator_accept_monitors_and_rules(
    operator_api: ApiServer, rendered: list[dict[str, Any]]
) -> None:
    documents = of_kind(rendered, "PodMonitor") + of_kind(rendered, "PrometheusRule")
    assert len(documents) == 3
    for document in documents:
        answer = dry_run(operator_api, document)
        assert answer.ok, answer.message
        assert answer.warnings == ()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("PodMonitor", {"podMetricsEndpoints": [{"interval": "often"}]}),
        ("PodMonitor", {"podMetricsEndpoints": [{"relabeling": []}]}),
        ("PrometheusRule", {"groups": [{"name": "g", "rules": [{"alert": "A"}]}]}),
    ],
)
def test_the_crds_of_prometheus_operator_refuse_wrong_objects(
    operator_api: ApiServer, rendered: list[dict[str, Any]], kind: str, change: dict[str, Any]
) -> None:
    document = copy.deepcopy(of_kind(rendered, kind)[0])
    document["spec"].update(change)
    assert not dry_run(operator_api, document).ok


def test_the_user_can_set_the_labels_and_annotations_for_discovery_of_the_objects() -> None:
    documents = monitoring(
        podMonitors={"enabled": True, "labels": {"release": "kps"}},
        rules={"enabled": True, "labels": {"role": "alerts"}, "runbooks": "https://wiki.example/epd/"},
        dashboards={"enabled": True, "annotations": {"grafana_folder": "EPD"}},
    )
    labels = {(d["kind"], key): value for d in documents for key, value in d["metadata"]["labels"].items()}
    assert labels["PodMonitor", "release"] == "kps"
    assert labels["PrometheusRule", "role"] == "alerts"
    assert labels["ConfigMap", "grafana_dashboard"] == "1"
    assert {d["metadata"]["annotations"]["grafana_folder"] for d in of_kind(documents, "ConfigMap")} == {"EPD"}
    (rule,) = of_kind(documents, "PrometheusRule")
    urls = {r["annotations"]["runbook_url"] for g in rule["spec"]["groups"] for r in g["rules"] if "alert" in r}
    assert "https://wiki.example/epd/EPDOperatorDown.md" in urls
    assert all(url.startswith("https://wiki.example/epd/EPD") for url in urls)


@pytest.mark.parametrize(
    "values",
    [
        {"podMonitors": {"enabled": "yes"}},
        {"podMonitors": {"enabled": True, "interval": "15"}},
        {"rules": {"enabled": True, "objectives": [{"namespace": "shop"}]}},
        {"rules": {"enabled": True, "objectives": [{"namespace": "a", "deployment": "b", "timeToFirstToken": 1}]}},
        {"rules": {"enabled": True, "runbooks": "runbooks"}},
        {"dashboard": {"enabled": True}},
    ],
)
def test_values_that_do_not_match_the_schema_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="schema"):
        monitoring(**values)


def test_a_release_that_watches_namespaces_monitors_workers_of_these_only() -> None:
    values = {"watchNamespaces": ["team-a", "team-b"], "monitoring": {"podMonitors": {"enabled": True}}}
    workers = of_kind(render(values), "PodMonitor")[1]
    assert workers["spec"]["namespaceSelector"] == {"matchNames": ["team-a", "team-b"]}


# What is scraped


def camel_to_snake(relabeling: dict[str, Any]) -> dict[str, Any]:
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    return {names.get(key, key): value for key, value in relabeling.items()}


def as_jobs(monitors: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The relabelings of each endpoint by job, without the step that sets the job."""
    jobs = {}
    for monitor in monitors:
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            steps = [camel_to_snake(step) for step in endpoint["relabelings"]]
            (job,) = [step["replacement"] for step in steps if step.get("target_label") == "job"]
            jobs[job] = [step for step in steps if step.get("target_label") != "job"]
    return jobs


BUILT_IN = [
    {"source_labels": ["__meta_kubernetes_pod_phase"], "regex": "Failed|Succeeded", "action": "drop"},
    {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
    {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
    {"source_labels": ["__meta_kubernetes_pod_container_port_name"], "regex": "metrics", "action": "keep"},
]
"""Steps that prometheus-operator adds automatically."""


def test_the_plain_configuration_is_equivalent_to_the_monitors(
    rendered: list[dict[str, Any]], plain_config: dict[str, Any]
) -> None:
    jobs = as_jobs(of_kind(rendered, "PodMonitor"))
    plain = {job["job_name"]: job["relabel_configs"] for job in plain_config["scrape_configs"]}
    assert jobs.keys() == plain.keys()
    for name, steps in plain.items():
        assert [step for step in steps if step not in BUILT_IN] == jobs[name]
    honoring = [m for m in of_kind(rendered, "PodMonitor") if m["spec"]["podMetricsEndpoints"][0].get("honorLabels")]
    assert [m["metadata"]["name"] for m in honoring] == ["epd-operator"]
    assert [job["job_name"] for job in plain_config["scrape_configs"] if job.get("honor_labels")] == ["epd-operator"]


def test_the_workers_monitor_selects_by_the_labels_that_the_operator_sets(rendered: list[dict[str, Any]]) -> None:
    operator, workers = of_kind(rendered, "PodMonitor")
    assert workers["spec"]["selector"]["matchLabels"] == {MANAGED_BY_LABEL: MANAGED_BY}
    assert workers["spec"]["selector"]["matchExpressions"] == [{"key": DEPLOYMENT_LABEL, "operator": "Exists"}]
    assert COMPONENT_LABEL == "app.kubernetes.io/component"
    (deployment,) = of_kind(rendered, "Deployment")
    pod = deployment["spec"]["template"]
    assert operator["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert operator["spec"]["podMetricsEndpoints"][0]["port"] in ports


def test_promtool_accepts_the_plain_configuration(plain_config: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(plain_config))
    done = promtool("check", "config", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_page_of_each_pod_is_scraped_once_and_nothing_else(prometheus: Prometheus, fleet: Fleet) -> None:
    expected = {
        f"http://{fleet.addresses[pod.name]}:{port}/metrics": (
            "epd-operator" if pod.stage is None else "epd-workers" if port < TELEMETRY_PORT else "epd-nixl"
        )
        for pod in fleet.pods()
        for port in pod.pages
    }
    targets = prometheus.api("targets", state="active")["activeTargets"]
    # An aggregated worker transfers nothing with NIXL, so its NIXL page is not served.
    solo = fleet.addresses["solo-worker-0"]
    down = {f"http://{solo}:{TELEMETRY_PORT}/metrics": "epd-nixl"}
    assert {target["scrapeUrl"]: target["labels"]["job"] for target in targets} == expected | down
    assert {target["scrapeUrl"] for target in targets if target["health"] != "up"} == set(down)
    assert len(targets) == len(expected) + 1


def test_series_of_workers_have_the_labels_of_their_deployment_and_stage(prometheus: Prometheus) -> None:
    found = {
        tuple(series["metric"].get(name) for name in ("namespace", "deployment", "stage"))
        for series in prometheus.query('up{job="epd-workers"}')
    }
    stages = {
        "Disaggregated": (StageName.FRONTEND, StageName.ENCODER, StageName.PD),
        "CoLocated": (StageName.FRONTEND, StageName.GROUP),
        "Aggregated": (StageName.FRONTEND, StageName.WORKER),
    }
    assert found == {(key.namespace, key.name, stage) for key, t in OBJECTS.items() for stage in stages[t]}


def test_series_about_objects_have_the_namespace_of_the_object(prometheus: Prometheus) -> None:
    found = {series["metric"]["namespace"] for series in prometheus.query("epd_deployment_info")}
    assert found == {key.namespace for key in OBJECTS}
    (leader,) = prometheus.query("epd_operator_leader")
    assert leader["metric"]["namespace"] == SYSTEM
    names = prometheus.api("labels", **{"match[]": '{job="epd-operator"}'})
    assert not [name for name in names if name.startswith("exported_")]

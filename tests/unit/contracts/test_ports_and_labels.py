"""Ports, labels and stages in the chart and in the local cluster equal those that the operator sets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_local.cluster import nodes
from epd_local.demo import __main__ as demo
from epd_local.demo import deployment, proof
from epd_operator import __main__ as operator
from epd_operator.api.v1alpha1 import epddeployment
from epd_operator.api.v1alpha1.epddeployment import Ucx
from epd_operator.api.v1alpha1.pools import PRODUCT_LABEL, Gpu
from epd_operator.api.v1alpha1.spec_rules import LOCAL_TRANSPORTS
from epd_operator.api.v1alpha1.stages import MAX_GROUP_ENCODERS, FrontendService
from epd_operator.api.v1alpha1.topology import GPU_STAGES, StageName, Topology
from epd_operator.objects.identity import COMPONENT_LABEL, DEPLOYMENT_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from epd_operator.plan.children.child_kind import WORKER_ROLE
from epd_operator.plan.pods.launcher import CONTROL_PORT
from epd_operator.plan.pods.process import (
    ENGINE_PORT,
    HTTP_PORT,
    KV_EVENTS_PORT,
    SIDE_CHANNEL_PORT,
    SYSTEM_PORT,
    TELEMETRY_PORT,
)
from epd_worker import metrics
from support.examples import ROOT, deployment_files
from unit.contracts import rendered

CHART = ROOT / "charts" / "epd-operator"
TEMPLATES = CHART / "templates"
POD_MONITORS = (TEMPLATES / "monitoring" / "podmonitors.yaml").read_text()
CONTRACT = (ROOT / "docs" / "pod-contract.md").read_text()
E2E = ROOT / "e2e" / "tests"
SLOTS = range(MAX_GROUP_ENCODERS + 1)
PORTS = {
    "metrics": SYSTEM_PORT,
    "engine": ENGINE_PORT,
    "telemetry": TELEMETRY_PORT,
    "handshake": SIDE_CHANNEL_PORT,
    "KV events": KV_EVENTS_PORT,
}


def test_no_two_ports_of_a_pod_are_equal() -> None:
    used = [base + slot for base in PORTS.values() for slot in SLOTS] + [CONTROL_PORT, HTTP_PORT]
    assert len(used) == len(set(used))


def test_the_ports_table_of_the_pod_contract_is_complete() -> None:
    table = CONTRACT.partition("## Ports")[2].partition("\n## ")[0]
    rows = {row.split("|")[1].strip() for row in table.splitlines() if re.match(r"\| \d", row)}
    expected = {*(f"{base} + N" for base in PORTS.values()), str(CONTROL_PORT), str(HTTP_PORT), "8080, 8081"}
    assert rows == expected


def keep_rules() -> list[re.Pattern[str]]:
    """Which pods' ports the monitors of workers keep, as `component;port name`: Dynamo's pages, and then NIXL's."""
    return [re.compile(pattern) for pattern in re.findall(r"regex: (\S+)\n\s+action: keep", POD_MONITORS)]


def test_monitors_keep_the_ports_with_metrics_and_no_others() -> None:
    of_dynamo, of_nixl = keep_rules()
    templates = [*rendered.all_templates(), (StageName.GROUP, rendered.group_template(MAX_GROUP_ENCODERS))]
    assert {stage for stage, _ in templates} == set(StageName)
    for stage, template in templates:
        launch = rendered.parsed(rendered.containers(template)[-1])
        served = {process.metrics_port or HTTP_PORT for process in launch.processes}
        ports = {name: port for c in rendered.containers(template) for name, port in rendered.ports(c).items()}
        assert {port for name, port in ports.items() if of_dynamo.fullmatch(f"{stage};{name}")} == served
        nixl = {port for name, port in ports.items() if of_nixl.fullmatch(f"{stage};{name}")}
        assert nixl == (set() if stage is StageName.FRONTEND else served)


def test_monitors_derive_the_port_of_nixl_metrics_from_the_port_of_each_process() -> None:
    ((pattern, replacement),) = re.findall(
        r"regex: '(\S+)', targetLabel: __address__, replacement: '(\S+)'", POD_MONITORS
    )
    replacement = re.sub(r"\$\{(\d)\}", r"\\g<\1>", replacement)
    for slot in SLOTS:
        for host in ("10.0.0.1", "[fd00::1]"):
            found = re.fullmatch(pattern, f"{host}:{SYSTEM_PORT + slot}")
            assert found is not None
            assert found.expand(replacement) == f"{host}:{TELEMETRY_PORT + slot}"


def test_monitors_accept_the_largest_page_that_the_launcher_serves() -> None:
    (megabytes,) = re.findall(r"bodySizeLimit: (\d+)MB", POD_MONITORS)
    assert int(megabytes) * 1024 * 1024 >= metrics.MAX_PAGE


def test_monitors_select_pods_by_labels_that_the_operator_sets() -> None:
    assert f"{{{MANAGED_BY_LABEL}: {MANAGED_BY}}}" in POD_MONITORS
    assert f"{{key: {DEPLOYMENT_LABEL}, operator: Exists}}" in POD_MONITORS
    used = set(re.findall(r"__meta_kubernetes_pod_label_(\w+)", POD_MONITORS.partition("-workers")[2]))
    assert used == {re.sub(r"[./-]", "_", label) for label in (COMPONENT_LABEL, DEPLOYMENT_LABEL)}


def test_the_chart_opens_the_ports_on_which_the_operator_listens() -> None:
    options = operator.parse([])
    text = (TEMPLATES / "deployment.yaml").read_text()
    named = {name: int(port) for name, port in re.findall(r"\{name: (\w+), containerPort: (\d+)\}", text)}
    assert (named["metrics"], named["health"]) == (options.metrics_port, options.health_port)


def test_the_admission_policies_list_all_stages() -> None:
    lists = re.findall(r'list ("frontend"[^}]*)\}\}', "".join(p.read_text() for p in TEMPLATES.rglob("*.tpl")))
    assert lists
    for found in lists:
        assert re.findall(r'"(\w+)"', found) == list(StageName)


def test_the_admission_policies_list_the_same_local_transports() -> None:
    text = (TEMPLATES / "admission" / "_denials.tpl").read_text()
    (found,) = re.findall(r"^\['self'.*\]$", text, flags=re.MULTILINE)
    assert re.findall(r"'(\w+)'", found) == list(LOCAL_TRANSPORTS)


@pytest.mark.parametrize("path", deployment_files(), ids=lambda path: "-".join(path.parts[-2:]))
def test_transports_in_examples_are_known_and_reach_other_pods_where_the_topology_needs_it(path: Path) -> None:
    known = {*Ucx().transports, *LOCAL_TRANSPORTS}
    for document in yaml.safe_load_all(path.read_text()):
        spec: dict[str, Any] = document["spec"]
        transports = set(spec.get("transfer", {}).get("ucx", {}).get("transports", Ucx().transports))
        assert transports <= known
        assert spec["topology"] != Topology.DISAGGREGATED or transports - set(LOCAL_TRANSPORTS)


def test_the_local_cluster_reads_metrics_at_the_ports_of_the_operator() -> None:
    assert (proof.SYSTEM_PORT, proof.TELEMETRY_PORT) == (SYSTEM_PORT, TELEMETRY_PORT)
    assert f"ENGINE_PORT = {ENGINE_PORT}\n" in (E2E / "test_topologies.py").read_text()
    assert f":{CONTROL_PORT}/proxy/status" in (E2E / "test_lifecycle.py").read_text()


def test_the_local_cluster_exposes_the_port_of_the_service() -> None:
    assert FrontendService().port == demo.SERVICE_PORT


def test_the_local_cluster_selects_pods_by_labels_that_the_operator_sets() -> None:
    assert (deployment.DEPLOYMENT_LABEL, deployment.COMPONENT_LABEL) == (DEPLOYMENT_LABEL, COMPONENT_LABEL)


def test_nodes_of_the_local_cluster_have_the_resource_and_the_label_of_gpu_nodes() -> None:
    assert (Gpu().resource_name, PRODUCT_LABEL) == (nodes.GPU_RESOURCE, nodes.PRODUCT_LABEL)


def test_chart_operator_and_end_to_end_tests_name_the_same_role_of_worker_pods() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["workerRole"]["name"] == WORKER_ROLE == operator.parse([]).worker_role
    assert f'WORKER_ROLE = "{WORKER_ROLE}"\n' in (E2E / "test_rights.py").read_text()


def test_the_local_cluster_has_an_example_of_every_topology() -> None:
    topologies = {
        yaml.safe_load(deployment.example(name).read_text())["spec"]["topology"] for name in deployment.TOPOLOGIES
    }
    assert topologies == set(Topology) == set(GPU_STAGES)


def test_the_demo_requests_the_model_name_that_the_examples_serve() -> None:
    for topology in deployment.TOPOLOGIES:
        example = yaml.safe_load(deployment.example(topology).read_text())
        assert example["spec"]["model"]["servedName"] == demo.MODEL
        assert example["metadata"]["name"] == deployment.Deployment.name
        assert example["kind"] == epddeployment.KIND

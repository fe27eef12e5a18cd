"""The examples for a service mesh: what their policies let in, and which pods they cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import Identity
from epd_operator.plan.planner import Plan, make_plan
from support.network import Peer, may_connect
from support.specs import TOPOLOGIES, raw_spec, spec
from support.world import World

MESH = Path(__file__).parents[3] / "examples" / "mesh"
IDENTITY = Identity(name="qwen-vl", namespace="serving", uid="u-1")
HBONE, CONTROL, SIDE_CHANNEL = 15008, 9400, 20097
PROBES = Peer(address="169.254.7.127")
CLIENT = Peer(namespace="other", namespace_labels={"kubernetes.io/metadata.name": "other"})
OUTSIDE = Peer(address="192.0.2.7")


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((MESH / name).read_text()))


def plan_of(topology: str) -> Plan:
    return make_plan(spec(topology), observation=World(IDENTITY).observation())


def policies(plan: Plan) -> list[dict[str, Any]]:
    return [child for child in plan.children if child["kind"] == "NetworkPolicy"]


def pods(plan: Plan) -> list[Peer]:
    return [Peer(namespace="serving", labels=stage.pod_template["metadata"]["labels"]) for stage in plan.stages]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_policies_let_in_the_tunnel_and_the_probes_of_ambient_mode_and_nothing_else(topology: str) -> None:
    plan = plan_of(topology)
    for pod in pods(plan):
        own, both = policies(plan), [*policies(plan), *documents("ambient-network-policies.yaml")]
        for source, port in ((CLIENT, HBONE), (PROBES, CONTROL)):
            assert not may_connect(own, source=source, target=pod, port=port)
            assert may_connect(both, source=source, target=pod, port=port)
        for source in (CLIENT, OUTSIDE):
            assert not may_connect(both, source=source, target=pod, port=CONTROL)
            assert not may_connect(both, source=source, target=pod, port=SIDE_CHANNEL)


def test_the_authorization_policies_select_the_pods_and_name_the_account_and_the_metrics_ports() -> None:
    plan = plan_of("Disaggregated")
    everything, frontend = (policy["spec"] for policy in documents("ambient-authorization.yaml"))
    (peers, metrics), (requests,) = everything["rules"], frontend["rules"]
    accounts = {stage.pod_template["spec"]["serviceAccountName"] for stage in plan.stages}
    assert peers["from"][0]["source"]["principals"] == [f"cluster.local/ns/serving/sa/{name}" for name in accounts]
    planned = next(rule["ports"] for policy in policies(plan) for rule in policy["spec"]["ingress"] if "ports" in rule)
    assert metrics["to"][0]["operation"]["ports"] == [str(port["port"]) for port in planned]
    assert requests["to"][0]["operation"]["ports"] == ["8000"]
    selected = [stage.name for stage in plan.stages if _selects(frontend, stage.pod_template)]
    assert selected == ["frontend"]
    assert all(_selects(everything, stage.pod_template) for stage in plan.stages)


def _selects(policy: dict[str, Any], template: dict[str, Any]) -> bool:
    return bool(policy["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items())


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_fields_give_a_sidecar_to_frontends_only_and_lets_it_take_only_the_http_port(topology: str) -> None:
    (fields,) = documents("sidecar.yaml")
    parsed = EPDDeploymentSpec.model_validate({**raw_spec(topology), **fields})
    plan = make_plan(parsed, observation=World(IDENTITY).observation())
    for stage in plan.stages:
        metadata = stage.pod_template["metadata"]
        assert metadata["labels"]["sidecar.istio.io/inject"] == ("true" if stage.name == "frontend" else "false")
        if stage.name == "frontend":
            assert metadata["annotations"]["traffic.sidecar.istio.io/includeInboundPorts"] == "8000"
            config = yaml.safe_load(metadata["annotations"]["proxy.istio.io/config"])
            assert config["holdApplicationUntilProxyStarts"] is True

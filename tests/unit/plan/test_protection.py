"""Who may connect to whom, over the pods as they are planned, and what a drain may take."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest

from epd_operator.loads.targets import targets_of
from epd_operator.objects.identity import Identity
from epd_operator.plan.planner import Plan, make_plan
from support.network import Peer, may_connect
from support.specs import TOPOLOGIES, spec
from support.world import World

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
HTTP, CONTROL, SYSTEM, ENGINE, TELEMETRY, SIDE_CHANNEL, ANY = 8000, 9400, 9090, 9190, 19090, 20097, 41234
PORTS = (HTTP, CONTROL, SYSTEM, ENGINE, TELEMETRY, SIDE_CHANNEL, ANY)
METRICS = {SYSTEM, TELEMETRY}

SERVING = {"kubernetes.io/metadata.name": "serving"}
OTHER = {"kubernetes.io/metadata.name": "other"}
OPERATOR = Peer(namespace="epd-system", namespace_labels={"kubernetes.io/metadata.name": "epd-system"})
OUTSIDE = Peer()
STRANGERS = {
    "a pod of the same namespace": Peer(namespace="serving", namespace_labels=SERVING),
    "a pod of another EPDDeployment": Peer(
        namespace="serving", namespace_labels=SERVING, labels={"epd.dev/deployment": "qwen-2"}
    ),
    "a pod of a namesake in another namespace": Peer(
        namespace="other", namespace_labels=OTHER, labels={"epd.dev/deployment": "qwen"}
    ),
    "a Prometheus in a namespace without labels": Peer(namespace="monitoring"),
    "the operator": OPERATOR,
}


def plan_of(topology: str, **changes: Any) -> Plan:
    return make_plan(spec(topology, **changes), observation=World(IDENTITY).observation())


def policies_of(plan: Plan) -> list[dict[str, Any]]:
    return [child for child in plan.children if child["kind"] == "NetworkPolicy"]


def pods_of(plan: Plan) -> dict[str, Peer]:
    """The pods of each stage, those that may not start yet included."""
    return {
        str(stage.name): Peer(
            namespace="serving", namespace_labels=SERVING, labels=stage.pod_template["metadata"]["labels"]
        )
        for stage in plan.stages
    }


def open_ports(plan: Plan, source: Peer, target: Peer) -> set[int]:
    return {p for p in PORTS if may_connect(policies_of(plan), source=source, target=target, port=p)}


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_pods_of_one_deployment_may_connect_to_each_other_on_every_port(topology: str) -> None:
    plan = plan_of(topology)
    pods = pods_of(plan)
    assert len(pods) == {"Aggregated": 2, "CoLocated": 2, "Disaggregated": 3}[topology]
    for source in pods.values():
        for target in pods.values():
            assert open_ports(plan, source, target) == set(PORTS)


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS.keys())
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_pods_of_the_cluster_reach_metrics_and_the_http_port_of_frontends_and_nothing_else(
    topology: str, stranger: Peer
) -> None:
    plan = plan_of(topology)
    for stage, pod in pods_of(plan).items():
        assert open_ports(plan, stranger, pod) == METRICS | ({HTTP} if stage == "frontend" else set())


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_from_outside_of_the_cluster_only_the_http_port_of_frontends_is_reached(topology: str) -> None:
    plan = plan_of(topology)
    for stage, pod in pods_of(plan).items():
        assert open_ports(plan, OUTSIDE, pod) == ({HTTP} if stage == "frontend" else set())


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_page_that_the_operator_reads_can_be_reached_by_it(topology: str) -> None:
    changes = {"group": {"pool": "gb200", "encoder": {"count": 8, "memory": "1Gi"}}} if topology == "CoLocated" else {}
    plan = plan_of(topology, **changes)
    pods = pods_of(plan)
    live = [
        {
            "metadata": {**stage.pod_template["metadata"], "name": str(stage.name)},
            "spec": stage.pod_template["spec"],
            "status": {"phase": "Running", "podIP": "198.51.100.7"},
        }
        for stage in plan.stages
    ]
    targets = targets_of(live)
    assert len(targets) == len(pods)
    for target in targets:
        port = urlsplit(target.url).port
        assert port is not None
        assert may_connect(policies_of(plan), source=OPERATOR, target=pods[target.pod], port=port)


def test_labels_of_the_user_cannot_take_pods_out_of_the_policies() -> None:
    labels = {"epd.dev/deployment": "another", "app.kubernetes.io/component": "frontend"}
    plan = plan_of("Aggregated", podTemplate={"labels": labels})
    assert open_ports(plan, STRANGERS["a pod of the same namespace"], pods_of(plan)["worker"]) == METRICS


def test_what_pods_connect_to_is_not_limited() -> None:
    for policy in policies_of(plan_of("Disaggregated")):
        assert policy["spec"]["policyTypes"] == ["Ingress"]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_each_stage_has_a_budget_of_its_own_that_selects_its_pods_and_no_others(topology: str) -> None:
    plan = plan_of(topology)
    budgets = {c["metadata"]["name"]: c["spec"] for c in plan.children if c["kind"] == "PodDisruptionBudget"}
    pods = pods_of(plan)
    assert budgets.keys() == {f"qwen-{stage}" for stage in pods}
    for name, budget in budgets.items():
        selected = [s for s, pod in pods.items() if budget["selector"]["matchLabels"].items() <= pod.labels.items()]
        assert selected == [name.removeprefix("qwen-")]


@pytest.mark.parametrize(
    ("field", "kind"), [("networkPolicy", "NetworkPolicy"), ("disruptionBudget", "PodDisruptionBudget")]
)
def test_what_the_user_manages_is_not_made(field: str, kind: str) -> None:
    kinds = {child["kind"] for child in plan_of("Disaggregated", **{field: {"mode": "Unmanaged"}}).children}
    assert kind not in kinds
    assert len(kinds & {"NetworkPolicy", "PodDisruptionBudget"}) == 1

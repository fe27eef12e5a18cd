"""A node loses power and stays off: requests, status, scaling decisions and the GPU budget do without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stories import Clients, Serve, eventually, is_ready, manifest

from epd_local.cluster import operations, processes
from epd_local.demo.chat import Endpoint
from epd_local.demo.deployment import Deployment
from epd_local.demo.installation import Installation

CLIENTS = 8
"""More requests at a time than two workers should have."""

EVICTION_SECONDS = 5
"""How long pods stay on a node that does not report: 300 by default, short here so that the test is short."""


def two_workers(spec: dict[str, Any]) -> None:
    """Two workers on different nodes, with GPUs for no third one."""
    spec["scaling"] = {"intervalSeconds": 5, "gpuBudget": 2}
    spec["drain"] = {"timeoutSeconds": 1}
    lost = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    spec["pools"][0]["tolerations"].append({**lost, "tolerationSeconds": EVICTION_SECONDS})
    spec["worker"] |= {
        "replicas": 2,
        "autoscaling": {
            "minReplicas": 2,
            "maxReplicas": 2,
            "metrics": [{"type": "Requests", "targetPerReplica": 2}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 10}},
        },
        "podTemplate": {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "worker"}},
            }},
        ]}}},
    }  # fmt: skip


@pytest.fixture
def deployment(serve_manifest: Serve, tmp_path: Path) -> Deployment:
    return serve_manifest(manifest(tmp_path, name="tiny", change=two_workers))


@pytest.fixture
def power(installation: Installation) -> Iterator[Callable[[str, bool], None]]:
    """Switches nodes off and on; all are on again afterwards."""
    where = installation.where
    off: set[str] = set()

    def switch(name: str, on: bool) -> None:
        if on:
            operations.switch_node_on(where, name=name)
            off.discard(name)
        else:
            off.add(name)
            operations.crash_node(where, name=name)

    yield switch
    for name in sorted(off - processes.node_inits(where.state).keys()):
        operations.switch_node_on(where, name=name)


def stage(deployment: Deployment) -> dict[str, Any]:
    found = (deployment.get() or {}).get("status", {}).get("stages", ())
    return next((s for s in found if s["name"] == "worker"), {})


def by_name(deployment: Deployment) -> dict[str, dict[str, Any]]:
    return {pod["metadata"]["name"]: pod for pod in deployment.pods("worker")}


def is_terminating(deployment: Deployment, pod: str) -> bool:
    return "deletionTimestamp" in by_name(deployment).get(pod, {"metadata": {}})["metadata"]


def test_a_lost_node_is_named_and_replaced_and_holds_back_no_scaling_decision(
    deployment: Deployment, endpoint: Endpoint, power: Callable[[str, bool], None]
) -> None:
    nodes = {name: pod["spec"]["nodeName"] for name, pod in by_name(deployment).items()}
    assert len(set(nodes.values())) == 2, nodes
    lost = min(nodes)
    with Clients(endpoint, count=CLIENTS) as clients:
        eventually(lambda: clients.answered > CLIENTS, what=clients.state)
        power(nodes[lost], False)
        eventually(lambda: stage(deployment).get("reason") == "NodeLost", what=deployment.get)
        message = stage(deployment)["message"]
        assert lost in message
        assert nodes[lost] in message
        before = clients.answered
        eventually(lambda: clients.answered > before + CLIENTS, what=clients.state)
        eventually(lambda: is_terminating(deployment, lost), what=deployment.pods)
    eventually(lambda: is_ready(deployment), what=deployment.get)
    # Without requests one worker is enough. The pod that stays Terminating does not prevent this for ever.
    lower = '{"spec":{"worker":{"autoscaling":{"minReplicas":1}}}}'
    deployment.kubectl.run("patch", "epd", deployment.name, "--type", "merge", "-p", lower)
    eventually(lambda: stage(deployment)["desired"] == 1, what=lambda: stage(deployment))
    assert is_terminating(deployment, lost)
    with Clients(endpoint, count=CLIENTS):
        # The budget is two GPUs: the GPU of the lost pod does not count any more.
        eventually(lambda: stage(deployment)["desired"] == 2, what=lambda: stage(deployment))
        assert is_terminating(deployment, lost)
    power(nodes[lost], True)
    eventually(lambda: lost not in by_name(deployment), what=deployment.pods)
    eventually(lambda: is_ready(deployment), what=deployment.get)
    assert endpoint.ask("Say hello.").text

"""Pods that no node can run are reported before they exist, and no longer when a node can; nothing else is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from epd_operator.cluster.nodes import PAGE_SIZE
from epd_operator.objects.identity import Key
from epd_operator.plan.status.reasons import ConditionType, Reason
from epd_operator.reconcile.node_check import NodeCheck
from epd_operator.reconcile.reconciler import Reconciler
from support.apiserver import ApiServer
from support.operated import READS, World
from support.specs import raw_spec

NODES = "/api/v1/nodes"
LABELS = {"nvidia.com/gpu.product": "NVIDIA-GB200", "kubernetes.io/arch": "arm64"}
CPU_LABELS = {"kubernetes.io/arch": "amd64"}


@pytest.fixture
def nodes(world: World) -> Iterator[ApiServer]:
    """The server; its nodes are removed afterwards."""
    yield world.server
    assert world.server.client.request("DELETE", NODES).ok


def add_node(server: ApiServer, name: str, *, labels: dict[str, str], gpus: int = 0) -> None:
    assert server.client.create(NODES, {"metadata": {"name": name, "labels": labels}}).ok
    report(server, name, allocatable={"nvidia.com/gpu": str(gpus), "cpu": "8"})


def report(server: ApiServer, name: str, **status: Any) -> None:
    """Change the status of a node as its kubelet does."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
    answer = server.client.apply(f"{NODES}/{name}/status", body)
    assert answer.ok, answer.message


async def test_the_condition_names_the_pool_and_ends_when_a_node_is_added(nodes: ApiServer, world: World) -> None:
    enqueued: list[Key] = []
    check = NodeCheck(world.cluster, enqueue=enqueued.append)
    reconciler = Reconciler(world.cluster, nodes=check)

    async def settle() -> dict[str, Any]:
        """Reconcile until nothing is written; returns the condition."""
        for _ in range(20):
            world.requests.clear()
            await reconciler.reconcile(Key(world.namespace, "qwen"))
            assert not world.requests["LIST Node"]
            if not any(not request.startswith(READS) for request in world.requests):
                return (await world.conditions()).get(ConditionType.NODES_UNSUITABLE, {})
        raise AssertionError(f"still writing: {world.requests}")

    for number in range(PAGE_SIZE + 1):
        add_node(nodes, f"cpu-{number}", labels=CPU_LABELS)
    world.create(raw_spec("Aggregated"))
    assert await settle() == {}
    world.requests.clear()
    await check.check()
    assert (world.requests["LIST Node"], world.requests["LIST RuntimeClass"]) == (2, 1)
    assert enqueued == [Key(world.namespace, "qwen")]

    found = await settle()
    assert (found["status"], found["reason"]) == ("True", Reason.NO_MATCHING_NODES)
    assert found["message"].startswith("stage worker, pool gb200: no node has the labels kubernetes.io/arch=arm64, ")
    assert (await world.conditions())["Stalled"]["status"] == "False"

    report(
        nodes, "cpu-0", conditions=[{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
    )
    await check.check()
    assert enqueued == [Key(world.namespace, "qwen")]

    add_node(nodes, "gb200", labels=LABELS, gpus=1)
    await check.check()
    assert enqueued == [Key(world.namespace, "qwen")] * 2
    assert await settle() == {}

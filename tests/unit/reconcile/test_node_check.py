"""When nodes are read, and which objects are reconciled because of them; time is virtual."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, RefusedError, UnavailableError
from epd_operator.cluster.nodes import PAGE_SIZE
from epd_operator.objects.identity import Identity, Key
from epd_operator.objects.kinds import NODE, RUNTIME_CLASS, Kind
from epd_operator.plan.observation import Observation
from epd_operator.plan.planner import make_plan
from epd_operator.plan.status.preflight import PodNeeds, needs_of
from epd_operator.plan.status.problem import Problem
from epd_operator.plan.status.reasons import Reason
from epd_operator.reconcile.node_check import CHECK_SECONDS, SECONDS_PER_NODE, NodeCheck
from support.specs import spec
from support.virtual import run_virtually

KEY, OTHER = Key("serving", "qwen"), Key("serving", "other")
REFUSED = RefusedError("forbidden", request="LIST /api/v1/nodes", status=403)
BUSY = UnavailableError("busy", request="LIST /api/v1/nodes", status=503)


def gpu_node(name: str = "gb200", *, gpus: int = 4) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": "NVIDIA-GB200", "kubernetes.io/arch": "arm64"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}}


GOOD, SHORT = [gpu_node()], [gpu_node(gpus=0)]


class NodesOf(Cluster):
    """An API server with these nodes, which sends them in pages."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self.nodes = nodes
        self.error: ClusterError | None = None
        self.requests: list[tuple[float, str]] = []

    async def list_page(self, kind: Kind, *, namespace: str | None, query: Mapping[str, str]) -> dict[str, Any]:
        assert namespace is None
        self.requests.append((asyncio.get_running_loop().time(), kind.kind))
        if self.error is not None:
            raise self.error
        if kind == RUNTIME_CLASS:
            return {"items": [], "metadata": {}}
        start, limit = int(query.get("continue", 0)), int(query["limit"])
        following = {"continue": str(start + limit)} if start + limit < len(self.nodes) else {}
        return {"items": self.nodes[start : start + limit], "metadata": following}


def needs(**worker: Any) -> tuple[PodNeeds, ...]:
    wanted = spec("Aggregated", worker={"pool": "gb200", **worker})
    observation = Observation(identity=Identity(name="qwen", namespace="serving", uid="u"), generation=1)
    return needs_of(wanted, rollout=make_plan(wanted, observation=observation).rollout, observation=observation)


NEEDS = needs()
Step = Callable[[NodesOf, NodeCheck, list[Key]], Awaitable[None]]


def run(step: Step) -> None:
    async def main() -> None:
        cluster, enqueued = NodesOf(list(GOOD)), list[Key]()
        await step(cluster, NodeCheck(cluster, enqueue=enqueued.append), enqueued)

    run_virtually(main())


def ask(check: NodeCheck, key: Key = KEY, *, before: Problem | None = None) -> Reason | None:
    found = check.problem(key, needs=NEEDS, before=before)
    return found and found.reason


def test_until_nodes_are_read_the_problem_of_the_status_is_kept() -> None:
    async def step(cluster: NodesOf, check: NodeCheck, enqueued: list[Key]) -> None:
        before = Problem(Reason.DEVICES_MISSING, "as before")
        assert ask(check, before=before) is Reason.DEVICES_MISSING
        cluster.error = BUSY
        await check.check()
        assert ask(check, before=before) is Reason.DEVICES_MISSING
        assert enqueued == []
        cluster.error = None
        await check.check()
        assert enqueued == [KEY]
        assert ask(check, before=before) is None

    run(step)


def test_a_problem_is_reported_when_two_readings_show_it_and_ends_with_the_first_that_does_not() -> None:
    async def step(cluster: NodesOf, check: NodeCheck, enqueued: list[Key]) -> None:
        await check.check()
        assert ask(check) is None
        cluster.nodes = SHORT
        await check.check()
        assert (enqueued, ask(check)) == ([], None)
        await check.check()
        assert (enqueued, ask(check)) == ([KEY], Reason.DEVICES_MISSING)
        await check.check()
        assert enqueued == [KEY]
        cluster.nodes = GOOD
        await check.check()
        assert (enqueued, ask(check)) == ([KEY, KEY], None)

    run(step)


def test_a_short_loss_of_devices_and_heartbeats_cause_nothing() -> None:
    async def step(cluster: NodesOf, check: NodeCheck, enqueued: list[Key]) -> None:
        await check.check()
        ask(check)
        for number in range(6):
            cluster.nodes = [gpu_node(gpus=4 * (number % 2))]
            cluster.nodes[0]["status"]["conditions"] = [{"type": "Ready", "lastHeartbeatTime": str(number)}]
            await check.check()
        assert enqueued == []

    run(step)


def test_the_first_reading_of_an_operator_counts_and_only_objects_with_another_answer_are_reconciled() -> None:
    async def step(cluster: NodesOf, check: NodeCheck, enqueued: list[Key]) -> None:
        cluster.nodes = SHORT
        assert ask(check) is None
        check.problem(OTHER, needs=needs(gpusPerReplica=2)[:1], before=None)
        await check.check()
        assert enqueued == [KEY]
        check.forget(KEY)
        cluster.nodes = GOOD
        await check.check()
        assert enqueued == [KEY]

    run(step)


def test_without_the_right_nothing_is_claimed_and_the_log_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async def step(cluster: NodesOf, check: NodeCheck, enqueued: list[Key]) -> None:
        cluster.nodes = SHORT
        await check.check()
        assert ask(check) is Reason.DEVICES_MISSING
        cluster.error = REFUSED
        for _ in range(3):
            await check.check()
            assert ask(check) is None
        assert enqueued == [KEY]

    with caplog.at_level(logging.WARNING):
        run(step)
    assert ["cannot be read: LIST" in record.message for record in caplog.records] == [True]


def test_a_busy_api_server_does_not_change_the_answer() -> None:
    async def step(cluster: NodesOf, check: NodeCheck, enqueued: list[Key]) -> None:
        cluster.nodes = SHORT
        await check.check()
        assert ask(check) is Reason.DEVICES_MISSING
        cluster.error = BUSY
        await check.check()
        assert (enqueued, ask(check)) == ([], Reason.DEVICES_MISSING)

    run(step)


@pytest.mark.parametrize("count", [1, 2500])
def test_nodes_are_read_once_per_interval_in_pages_whatever_the_number_of_objects(count: int) -> None:
    async def step(cluster: NodesOf, check: NodeCheck, _enqueued: list[Key]) -> None:
        cluster.nodes = [gpu_node(f"n{number:04}") for number in range(count)]
        interval = max(CHECK_SECONDS, count * SECONDS_PER_NODE)
        task = asyncio.create_task(check.run(random=lambda: 0.5))
        await asyncio.sleep(0.5)
        for number in range(50):
            assert ask(check, Key("serving", f"d{number}")) is None
        await asyncio.sleep(interval)
        task.cancel()
        pages = -(-count // PAGE_SIZE)
        assert cluster.requests == [
            (time, kind) for time in (0, interval) for kind in [NODE.kind] * pages + [RUNTIME_CLASS.kind]
        ]

    run(step)


def test_unchanged_nodes_are_kept_once() -> None:
    async def step(_cluster: NodesOf, check: NodeCheck, _enqueued: list[Key]) -> None:
        for _ in range(3):
            await check.check()
        first, second = check._readings
        assert first.nodes.nodes[0] is second.nodes.nodes[0]

    run(step)

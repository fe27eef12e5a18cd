"""A change of the topology on a real API server: a second revision, step by step, and with an operator that is killed.

The nodes, and the requests of the operator to a new revision, are played by the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.plan.rollout.compatibility import compatibility_key
from support.apiserver import ApiServer
from support.operated import World, new_world
from support.rollouts import REVISION, Switch, new_switch
from support.specs import raw_spec

OLD = {"qwen-frontend": 1, "qwen-encoder": 2, "qwen-pd": 3}
AGGREGATED = raw_spec("Aggregated")


def revision_of(spec: dict[str, Any]) -> str:
    """The name of the revision of a spec."""
    return compatibility_key(EPDDeploymentSpec.model_validate(spec))


NEW = revision_of(AGGREGATED)
NEW_PODS = {f"qwen-frontend-{NEW}": 1, f"qwen-worker-{NEW}": 2}


async def start_new(switch: Switch) -> None:
    """Change the topology; the pods of the new revision become ready, and nobody has asked them yet."""
    switch.verifier.passes = None
    switch.replace_spec(AGGREGATED)
    await switch.settle()
    for name in NEW_PODS:
        await switch.world.report_ready(name)
    await switch.settle()


async def test_another_topology_gets_the_requests_when_it_has_answered_and_the_old_one_is_drained_in_order(
    world: World,
) -> None:
    async with new_switch(world) as switch:
        switch.verifier.passes = None
        switch.replace_spec(AGGREGATED)
        await switch.settle()
        assert await switch.replicas() == {**OLD, **NEW_PODS}
        assert await switch.selected() == "initial"
        reason, message = await switch.ready()
        assert (reason, f"revision {NEW}: " in message) == ("PodsStarting", True)

        for name in NEW_PODS:
            await world.report_ready(name)
        await switch.settle()
        assert (await switch.ready())[0] == "RevisionVerifying"
        assert await switch.selected() == "initial"
        assert await switch.replicas() == {**OLD, **NEW_PODS}

        switch.verifier.passes = True
        # The first reconcile asks the new revision, the second has the answer.
        assert await switch.reconcile() == []
        assert "APPLY Service" in await switch.reconcile()
        assert await switch.selected() == NEW
        assert await switch.replicas() == {**OLD, **NEW_PODS}

        for stage, rest in (("frontend", {"encoder": 2, "pd": 3}), ("pd", {"encoder": 2}), ("encoder", {})):
            await switch.settle()
            left = {name: n for name, n in (await switch.replicas()).items() if n and name not in NEW_PODS}
            assert left == {f"qwen-{name}": n for name, n in rest.items()}
            assert (await switch.ready())[0] == "RevisionRemoving"
            await world.report_ready(f"qwen-{stage}")

        await switch.settle()
        assert await switch.replicas() == NEW_PODS
        assert await switch.ready() == ("AllStagesReady", "all stages are ready")
        assert await switch.reconcile() == []
        records = await switch.records()
        assert [record["metadata"]["labels"][REVISION] for record in records] == ["initial", NEW]
        assert [record["data"]["spec"]["topology"] for record in records] == ["Disaggregated", "Aggregated"]


async def test_a_revision_that_does_not_answer_never_serves_and_an_edit_back_removes_it_without_moving_the_service(
    world: World,
) -> None:
    message = "request with text to pod qwen-frontend: HTTP 500: no weights"
    async with new_switch(world) as switch:
        service = await switch.service()
        await start_new(switch)
        switch.verifier.passes, switch.verifier.message = False, message
        await switch.reconcile()
        await switch.settle()
        reason, text = await switch.ready()
        assert (reason, message in text) == ("VerificationFailed", True)
        conditions = await world.conditions()
        assert conditions["Available"]["status"] == "True"
        assert await switch.replicas() == {**OLD, **NEW_PODS}
        assert await switch.service() == service
        assert await switch.reconcile() == []

        switch.replace_spec(raw_spec())
        await switch.finish()
        assert await switch.replicas() == OLD
        assert await switch.service() == service
        assert await switch.ready() == ("AllStagesReady", "all stages are ready")
        assert await switch.reconcile() == []


async def test_shares_of_the_traffic_end_with_all_requests_or_return_to_the_old_revision_after_errors(
    world: World,
) -> None:
    async with new_switch(world, **raw_spec(**STEPS)) as switch:
        seen: list[tuple[str | None, int]] = []

        async def share() -> tuple[str | None, int]:
            selector = (await switch.service())["spec"]["selector"]
            return selector.get(REVISION), (await switch.replicas()).get("qwen-frontend", 0)

        switch.replace_spec(AGGREGATED | STEPS)
        for _ in range(60):
            switch.now += timedelta(seconds=10)
            await switch.reconcile()
            for name in await switch.replicas():
                await world.report_ready(name)
            seen.append(await share())
        shared = [found for found in dict.fromkeys(seen) if found[0] is None]
        assert shared == [(None, 3), (None, 1)]
        assert seen[-1] == (NEW, 0)
        assert await switch.ready() == ("AllStagesReady", "all stages are ready")

        switch.comparer.fails = True
        switch.replace_spec(raw_spec(**STEPS))
        for _ in range(30):
            switch.now += timedelta(seconds=10)
            await switch.reconcile()
            for name in await switch.replicas():
                await world.report_ready(name)
        assert await switch.selected() == NEW
        reason, message = await switch.ready()
        assert reason == "RevisionReturned"
        assert "50 of 100 requests failed with errors of the server" in message
        switch.start()
        assert await switch.reconcile() == []


async def test_ten_edits_in_a_row_end_in_one_revision_with_nothing_left_of_the_others(world: World) -> None:
    async with new_switch(world) as switch:
        specs = [
            raw_spec(topology, runtime={"image": f"example.test/epd:{number}"}, rollout={"revisionHistoryLimit": 2})
            for number, topology in enumerate(("Aggregated", "Disaggregated", "CoLocated", "Aggregated", "CoLocated"))
        ]
        edits = [*specs, *reversed(specs)]
        for spec in edits:
            switch.replace_spec(spec)
            await switch.reconcile()
        last = revision_of(edits[-1])
        await switch.finish()
        assert await switch.replicas() == {f"qwen-frontend-{last}": 1, f"qwen-worker-{last}": 2}
        assert await switch.selected() == last
        assert len(await switch.records()) == 3
        content = await switch.content()
        assert {name for name in content if name.startswith("PodDisruptionBudget")} == {
            "PodDisruptionBudget qwen-frontend",
            "PodDisruptionBudget qwen-worker",
        }
        assert await switch.reconcile() == []


def always_serves(switch: Switch) -> Callable[[Mapping[str, Any]], None]:
    """A check that the revision of the Service has a ready pod of every stage."""

    def check(deployments: Mapping[str, Any]) -> None:
        path = f"/api/v1/namespaces/{switch.world.namespace}/services/qwen"
        selected = switch.world.server.client.get(path).body["spec"]["selector"].get(REVISION)
        stages = {
            name: found.get("status", {}).get("readyReplicas", 0)
            for name, found in deployments.items()
            if selected in (None, found["metadata"]["labels"][REVISION])
        }
        if selected is None:
            assert len({found["metadata"]["labels"][REVISION] for found in deployments.values()}) == 2, deployments
        assert len(stages) >= 2, (selected, list(deployments))
        assert all(stages.values()), (selected, stages)

    return check


def always_serves_on_a_full_pool(switch: Switch) -> Callable[[Mapping[str, Any]], None]:
    """The same, and all workers together never have more GPUs than those of the old revision had."""
    serves = always_serves(switch)

    def check(deployments: Mapping[str, Any]) -> None:
        serves(deployments)
        workers = [found for name, found in deployments.items() if "worker" in name]
        assert sum(found.get("status", {}).get("replicas", 0) for found in workers) <= WORKERS

    return check


def no_check(_switch: Switch) -> Callable[[Mapping[str, Any]], None]:
    """Requests may fail."""
    return lambda _: None


AT_ONCE = 6
"""Objects that are tried at the same time, each in its own namespace."""
RECREATE = {"rollout": {"strategy": "Recreate"}}
STEPS = {"rollout": {"steps": [{"trafficPercent": 25, "pauseSeconds": 20}, {"trafficPercent": 50, "pauseSeconds": 20}]}}
WORKERS = 2
FULL_POOL = {"rollout": {"strategy": "Rolling"}, "worker": {"pool": "gb200", "replicas": WORKERS}}
SWITCHES = {
    "to one process": (raw_spec(), AGGREGATED),
    "to encoders": (AGGREGATED, raw_spec()),
    "to encoders, without further GPUs": (AGGREGATED | RECREATE, raw_spec(**RECREATE)),
    "to one process, with shares of the traffic": (raw_spec(**STEPS), AGGREGATED | STEPS),
    "to another image, on a full pool": (
        AGGREGATED | FULL_POOL,
        AGGREGATED | FULL_POOL | {"runtime": {"image": "example.test/epd:2"}},
    ),
}


@pytest.mark.parametrize(("before", "after"), SWITCHES.values(), ids=SWITCHES.keys())
async def test_an_operator_that_is_killed_after_any_of_its_writes_ends_in_the_same_state(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch, before: dict[str, Any], after: dict[str, Any]
) -> None:
    async def end(*, kill_after: int) -> tuple[dict[str, Any], int]:
        """The state in the end, and the number of writes."""
        strategy = after.get("rollout", {}).get("strategy", "BlueGreen")
        async with new_world(api_server, monkeypatch) as world, new_switch(world, **before) as switch:
            switch.replace_spec(after)
            switch.kill_after = kill_after
            check = {"Recreate": no_check, "Rolling": always_serves_on_a_full_pool}.get(strategy, always_serves)
            await switch.finish(check=check(switch))
            assert await switch.reconcile() == []
            return await switch.content(), switch.total

    expected, writes = await end(kill_after=0)
    assert writes > 10
    assert expected["status"]["conditions"][0]["reason"] == "AllStagesReady"
    for first in range(1, writes + 1, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, writes + 1))
        ends = await asyncio.gather(*(end(kill_after=number) for number in numbers))
        for number, (found, total) in zip(numbers, ends, strict=True):
            assert total >= number
            assert found == expected, f"killed after write {number} of {writes}"

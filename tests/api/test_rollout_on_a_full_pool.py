"""A rolling update without a spare GPU, with the real controllers of Deployments and ReplicaSets."""

from __future__ import annotations

from epd_operator.objects.kinds import DEPLOYMENT
from epd_operator.objects.pods import is_ready
from support.life_cycle import RUNNING, patch, pods, report_status, run_all, until
from support.operated import World
from support.scaled import NO_GPU, SCHEDULED, ScaledWorld
from support.specs import raw_spec
from support.waiting import eventually


async def test_one_replica_on_a_full_pool_is_replaced_in_place_once_its_rollout_allows_it(live_world: World) -> None:
    world = live_world
    world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 1}))
    await run_all(world)
    (old,) = await pods(world, "worker")
    patch(world, {"spec": {"worker": {"args": ["--enforce-eager"]}}})

    async def blocked() -> bool:
        await world.reconcile()
        for pod in await pods(world, "worker"):
            if pod["metadata"]["name"] != old["metadata"]["name"]:
                report_status(world, pod, {"conditions": [NO_GPU]})
        return (await world.conditions())["Ready"]["reason"] == "RolloutBlocked"

    await eventually(blocked, state=world.conditions)
    message = (await world.conditions())["Ready"]["message"]
    assert "Insufficient nvidia.com/gpu" in message
    assert "set spec.worker.rollout to {maxSurge: 0, maxUnavailable: 1}" in message
    assert (await world.conditions())["Available"]["status"] == "True"
    assert await world.reconcile() == []

    patch(world, {"spec": {"worker": {"rollout": {"maxSurge": 0, "maxUnavailable": 1}}}})

    async def replaced() -> bool:
        await world.reconcile()
        names = {pod["metadata"]["name"] for pod in await pods(world, "worker")}
        return old["metadata"]["name"] not in names and len(names) == 1

    await eventually(replaced, state=lambda: world.find(DEPLOYMENT, "qwen-worker"))
    (new,) = await pods(world, "worker")
    report_status(world, new, {"conditions": [SCHEDULED, *RUNNING["conditions"]]})
    await run_all(world)
    await until(world, "AllStagesReady")


async def test_a_stage_is_scaled_down_during_a_blocked_rollout_which_then_continues(live_world: World) -> None:
    world = live_world
    autoscaling = {"maxReplicas": 6, "metrics": [{"type": "Requests", "targetPerReplica": 10}]}
    world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 2, "autoscaling": autoscaling}))
    operated = ScaledWorld(world, load=15.0, gpus=2)
    await operated.until(desired=2, pods_exist=2)
    patch(world, {"spec": {"worker": {"args": ["--enforce-eager"]}}})

    async def is_blocked() -> bool:
        await operated.step()
        return (await world.conditions())["Ready"]["reason"] == "RolloutBlocked"

    await eventually(is_blocked, state=world.conditions)
    (old,) = {pod["metadata"]["labels"]["pod-template-hash"] for pod in await pods(world, "worker") if is_ready(pod)}

    operated.loads.total = 5.0
    await operated.until(desired=1, pods_exist=1)

    async def is_complete() -> bool:
        await operated.step()
        return (await world.conditions())["Ready"]["reason"] == "AllStagesReady"

    await eventually(is_complete, state=world.conditions)
    (new,) = await pods(world, "worker")
    assert new["metadata"]["labels"]["pod-template-hash"] != old

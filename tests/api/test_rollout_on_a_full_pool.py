"""A rolling update without a spare GPU, with the real controllers of Deployments and ReplicaSets."""

from __future__ import annotations

from epd_operator.objects.kinds import DEPLOYMENT
from support.life_cycle import RUNNING, patch, pods, report_status, run_all, until
from support.operated import World
from support.specs import raw_spec
from support.waiting import eventually

NO_GPU = {
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
        }
    ]
}


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
                report_status(world, pod, NO_GPU)
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
    report_status(world, new, {"conditions": [{"type": "PodScheduled", "status": "True"}, *RUNNING["conditions"]]})
    await run_all(world)
    await until(world, "AllStagesReady")

"""A stage that is scaled beyond a quota, with the real controllers of Deployments, ReplicaSets and quotas."""

from __future__ import annotations

from epd_operator.objects.kinds import EPD_DEPLOYMENT
from epd_operator.scaling.capacity import REFUSED_AFTER_SECONDS
from epd_operator.scaling.model import ScalingReason
from support.life_cycle import patch
from support.operated import World
from support.scaled import STEP, ScaledWorld
from support.specs import raw_spec
from support.waiting import eventually

AUTOSCALING = {"maxReplicas": 6, "metrics": [{"type": "Requests", "targetPerReplica": 10}]}
GPUS = "requests.nvidia.com/gpu"


def create_quota(world: World, **hard: str) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"}, "spec": {"hard": hard}}
    assert world.server.client.create(f"/api/v1/namespaces/{world.namespace}/resourcequotas", body).ok


def set_quota(world: World, **hard: str) -> None:
    path = f"/api/v1/namespaces/{world.namespace}/resourcequotas/quota"
    body = {"spec": {"hard": hard}}
    answer = world.server.client.request("PATCH", path, body, content_type="application/merge-patch+json")
    assert answer.ok, answer.message


async def test_a_stage_grows_up_to_its_quota_reports_it_and_grows_on_when_the_quota_is_raised(
    live_world: World,
) -> None:
    create_quota(live_world, **{GPUS: "2"})
    live_world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 1, "autoscaling": AUTOSCALING}))
    operated = ScaledWorld(live_world, load=40.0)

    capped = await operated.until(desired=2, pods_exist=2, reason=ScalingReason.QUOTA_EXCEEDED)
    assert "exceeded quota: quota" in capped.message
    status = (await live_world.find(EPD_DEPLOYMENT, "qwen"))["status"]
    assert status["stages"][1]["scaling"]["reason"] == "QuotaExceeded"

    set_quota(live_world, **{GPUS: "4"})
    grown = await operated.until(desired=4, pods_exist=4)
    assert grown.reason is not ScalingReason.QUOTA_EXCEEDED


async def test_a_stage_whose_new_replica_set_is_refused_still_grows_with_pods_of_the_one_before(
    live_world: World,
) -> None:
    create_quota(live_world, **{"count/replicasets.apps": "2"})
    live_world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 1, "autoscaling": AUTOSCALING}))
    operated = ScaledWorld(live_world, load=5.0)
    await operated.until(desired=1, pods_exist=1)
    patch(live_world, {"spec": {"worker": {"args": ["--enforce-eager"]}}})

    async def is_refused() -> bool:
        await operated.step()
        return (await live_world.conditions())["Ready"]["reason"] == "PodsRefused"

    await eventually(is_refused, state=live_world.conditions)
    for _ in range(2 * int(REFUSED_AFTER_SECONDS / STEP)):
        await operated.step()
    operated.loads.total = 40.0
    decision = await operated.step()
    assert decision is not None
    assert (decision.desired, decision.reason) == (4, ScalingReason.PANIC)
    await operated.until(desired=4, pods_exist=4)

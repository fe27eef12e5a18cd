"""A stage that is scaled beyond a quota, with the real controllers of Deployments, ReplicaSets and quotas."""

from __future__ import annotations

from typing import Any

from epd_operator.objects.kinds import EPD_DEPLOYMENT
from epd_operator.scaling.model import ScalingReason
from support.operated import World
from support.scaled import ScaledWorld
from support.specs import raw_spec

QUOTA: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "gpus"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "2"}},
}


def set_quota(world: World, gpus: int) -> None:
    path = f"/api/v1/namespaces/{world.namespace}/resourcequotas/gpus"
    body = {"spec": {"hard": {"requests.nvidia.com/gpu": str(gpus)}}}
    answer = world.server.client.request("PATCH", path, body, content_type="application/merge-patch+json")
    assert answer.ok, answer.message


async def test_a_stage_grows_up_to_its_quota_reports_it_and_grows_on_when_the_quota_is_raised(
    live_world: World,
) -> None:
    quotas = f"/api/v1/namespaces/{live_world.namespace}/resourcequotas"
    assert live_world.server.client.create(quotas, QUOTA).ok
    autoscaling = {"maxReplicas": 6, "metrics": [{"type": "Requests", "targetPerReplica": 10}]}
    live_world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 1, "autoscaling": autoscaling}))
    operated = ScaledWorld(live_world, load=40.0)

    capped = await operated.until(desired=2, pods_exist=2, reason=ScalingReason.QUOTA_EXCEEDED)
    assert "exceeded quota: gpus" in capped.message
    status = (await live_world.find(EPD_DEPLOYMENT, "qwen"))["status"]
    assert status["stages"][1]["scaling"]["reason"] == "QuotaExceeded"

    set_quota(live_world, 4)
    grown = await operated.until(desired=4, pods_exist=4)
    assert grown.reason is not ScalingReason.QUOTA_EXCEEDED

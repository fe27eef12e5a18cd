"""Values that people really write, against a real API server: all of Unicode, and quantities that it rewrites."""

from __future__ import annotations

from typing import Any

import pytest

from epd_operator.objects.kinds import DEPLOYMENT, Kind
from support.older_crd import without_rules
from support.operated import PRIMARIES, World
from support.specs import raw_spec

CONFIG_MAP = Kind(kind="ConfigMap", api_version="v1", plural="configmaps")
BLOCK = 0x2000
"""Code points in one object."""
SURROGATES = range(0xD800, 0xE000)

VOLUMES: dict[str, Any] = {"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": 1.5}}]}
QUANTITIES: dict[str, dict[str, Any]] = {
    "more than the API server can count": {"sharedMemory": "16Ei"},
    "far more than it can count": {"sharedMemory": "99999999999Ei"},
    "a limit that it saturates": {"resources": {"limits": {"memory": "1000000Ei"}}},
    "a fraction of a byte": {"podTemplate": VOLUMES},
    "an exponent": {"podTemplate": {"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1e3"}}]}},
    "no digits before the point": {
        "podTemplate": {"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": ".5Gi"}}]}
    },
}


async def test_every_character_survives_a_server_side_apply(world: World) -> None:
    for start in range(0, 0x110000, BLOCK):
        text = "".join(chr(code) for code in range(start, start + BLOCK) if code not in SURROGATES)
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "text", "namespace": world.namespace},
            "data": {"text": text},
        }
        written = await world.cluster.apply(CONFIG_MAP, body=body, field_manager="test")
        assert written.get("data", {}).get("text", "") == text, f"from U+{start:04X}"


async def test_half_a_character_is_replaced_and_does_not_stop_the_write(world: World) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "text", "namespace": world.namespace},
        "data": {"text": "a\ud83d"},
    }
    written = await world.cluster.apply(CONFIG_MAP, body=body, field_manager="test")
    assert written["data"]["text"] == "a\ufffd"


async def test_a_spec_with_emoji_is_reconciled_and_settles(world: World) -> None:
    rocket = "\N{ROCKET}"
    worker = {"pool": "gb200", "env": [{"name": "GREETING", "value": rocket}], "args": [f"--greeting={rocket}"]}
    world.create(raw_spec("Aggregated", worker=worker, podTemplate={"annotations": {"note": rocket}}))
    await world.settle()
    assert await world.reconcile() == []
    template = (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["template"]
    assert template["metadata"]["annotations"]["note"] == rocket
    assert {"name": "GREETING", "value": rocket} in template["spec"]["containers"][0]["env"]


@pytest.mark.parametrize("worker", QUANTITIES.values(), ids=QUANTITIES)
async def test_a_quantity_that_the_server_rewrites_causes_no_further_write(
    world: World, worker: dict[str, Any]
) -> None:
    with without_rules(world.server):  # absurd amounts are refused now
        world.create(raw_spec("Aggregated", worker={"pool": "gb200", **worker}))
    await world.settle()
    assert (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["replicas"] == 1
    assert await world.reconcile() == []


async def test_empty_lists_of_arguments_are_reconciled(world: World) -> None:
    group = {"pool": "gb200", "args": [], "env": [], "encoder": {"args": []}, "pd": {"args": [], "env": []}}
    world.create(raw_spec("CoLocated", group=group, runtime={"image": "example.test/epd:1", "args": []}))
    await world.settle()
    assert (await world.conditions())["Ready"]["reason"] == "PodsStarting"


FORGED = [
    {"type": f"Forged{number}", "status": "True", "reason": "Forged", "message": "", "observedGeneration": 1,
     "lastTransitionTime": "2026-01-01T00:00:00Z"} for number in range(16)
]  # fmt: skip


async def test_a_status_that_is_full_of_foreign_conditions_is_replaced(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    path = f"{PRIMARIES.format(world.namespace)}/qwen/status"
    live = world.server.client.get(path).body
    answer = world.server.client.request("PUT", path, {**live, "status": {"conditions": FORGED}})
    assert answer.ok, answer.message
    await world.settle()
    assert (await world.conditions()).keys() == {"Ready", "Available", "Reconciling", "Stalled"}
    assert await world.reconcile() == []


async def test_nonsense_about_scaling_in_the_status_is_replaced(world: World) -> None:
    autoscaling = {"maxReplicas": 4, "metrics": [{"type": "Requests", "targetPerReplica": 8}]}
    world.create(raw_spec("Aggregated", worker={"pool": "gb200", "autoscaling": autoscaling}))
    await world.settle()
    path = f"{PRIMARIES.format(world.namespace)}/qwen/status"
    live = world.server.client.get(path).body
    (worker,) = [stage for stage in live["status"]["stages"] if stage["name"] == "worker"]
    worker["scaling"] = {"current": 1, "desired": 1, "reason": "x", "message": "x", "value": "NaN", "target": "-1"}
    assert world.server.client.request("PUT", path, live).ok
    await world.settle()
    (worker,) = [s for s in world.server.client.get(path).body["status"]["stages"] if s["name"] == "worker"]
    assert "scaling" not in worker
    assert await world.reconcile() == []


async def test_a_foreign_stage_in_the_status_is_removed_and_a_foreign_condition_is_kept(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    path = f"{PRIMARIES.format(world.namespace)}/qwen/status"
    live = world.server.client.get(path).body
    live["status"]["stages"].append({"name": "forged", "desired": 9, "ready": 9, "updated": 9})
    live["status"]["conditions"].append(FORGED[0])
    assert world.server.client.request("PUT", path, live).ok
    await world.settle()
    status = world.server.client.get(path).body["status"]
    assert [stage["name"] for stage in status["stages"]] == ["frontend", "worker"]
    assert "Forged0" in {condition["type"] for condition in status["conditions"]}
    assert await world.reconcile() == []

"""Values that people really write, against a real API server: all of Unicode, and quantities that it rewrites."""

from __future__ import annotations

from typing import Any

import pytest

from epd_operator.objects.kinds import DEPLOYMENT, Kind
from support.operated import World
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
    world.create(raw_spec("Aggregated", worker={"pool": "gb200", **worker}))
    await world.settle()
    assert (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["replicas"] == 1
    assert await world.reconcile() == []


async def test_empty_lists_of_arguments_are_reconciled(world: World) -> None:
    group = {"pool": "gb200", "args": [], "env": [], "encoder": {"args": []}, "pd": {"args": [], "env": []}}
    world.create(raw_spec("CoLocated", group=group, runtime={"image": "example.test/epd:1", "args": []}))
    await world.settle()
    assert (await world.conditions())["Ready"]["reason"] == "PodsStarting"

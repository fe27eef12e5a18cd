"""Objects that were stored before the API had a rule that refuses them now."""

from __future__ import annotations

from typing import Any

import pytest

from epd_operator.objects.kinds import DEPLOYMENT
from support.bad_objects import deployment, env, mount
from support.client import Answer
from support.older_crd import without_rules
from support.operated import PRIMARIES, World

MERGE = "application/merge-patch+json"


def mounts(*paths: str) -> dict[str, Any]:
    """A pod template with volumes at these paths."""
    return {"volumes": [{"name": "a", "emptyDir": {}}], "volumeMounts": [mount("a", path) for path in paths]}


OLD: dict[str, dict[str, Any]] = {
    "variables that the operator sets": {
        "runtime.env": env("HOME", value="/root") + env("NIXL_TELEMETRY_ENABLE", value="n"),
        "pd.env": env("XDG_CACHE_HOME", value="/x"),
    },
    "flags that the operator sets": {"pd.args": ["--config", "/etc/vllm.yaml", "--gpu-memory-util=0.5"]},
    "images that no runtime can read": {"runtime.image": "https://r/x:1", "pd.podTemplate": {"image": "R/X"}},
    "paths in odd spellings": {"podTemplate": mounts("/var//lib/x", "/a/./b")},
    "volumes over folders of the runtime": {"podTemplate": mounts("/dev", "/proc")},
    "absurd amounts": {
        "pd.sharedMemory": "16Ei",
        "encoder.resources": {"limits": {"memory": "1000000Ei"}},
        "pools.0.gpu.memory": "2Pi",
    },
}
"""Values that are refused at creation. Kubernetes checks them again only when they are changed."""


def store(world: World, changes: dict[str, Any]) -> None:
    body = deployment(changes=changes)
    assert refused(world.server.client.create(PRIMARIES.format(world.namespace), body, dry_run=True))
    with without_rules(world.server):
        world.create(body["spec"])


def patch(world: World, spec: dict[str, Any]) -> Answer:
    path = f"{PRIMARIES.format(world.namespace)}/qwen"
    return world.server.client.request("PATCH", path, {"spec": spec}, content_type=MERGE)


def refused(answer: Answer) -> bool:
    return answer.status == 422


@pytest.mark.parametrize("changes", OLD.values(), ids=OLD)
async def test_an_older_object_is_reconciled_and_its_status_is_written(world: World, changes: dict[str, Any]) -> None:
    store(world, changes)
    await world.settle()
    conditions = await world.conditions()
    assert conditions["Stalled"]["status"] == "False", conditions
    assert (await world.find(DEPLOYMENT, "qwen-encoder"))["spec"]["replicas"] == 2
    assert await world.reconcile() == []


@pytest.mark.parametrize("changes", OLD.values(), ids=OLD)
async def test_other_fields_of_an_older_object_can_be_changed(world: World, changes: dict[str, Any]) -> None:
    store(world, changes)
    assert patch(world, {"drain": {"timeoutSeconds": 60}, "pd": {"replicas": 5}}).message == ""
    body = deployment(changes={**changes, "frontend.replicas": 3})
    applied = world.server.client.apply(f"{PRIMARIES.format(world.namespace)}/qwen", body)
    assert applied.message == ""
    await world.settle()
    assert (await world.find(DEPLOYMENT, "qwen-frontend"))["spec"]["replicas"] == 3


async def test_an_older_value_can_be_corrected_but_not_exchanged_for_another_wrong_one(world: World) -> None:
    store(world, {"runtime.image": "https://r/x:1", "pd.sharedMemory": "16Ei"})
    assert refused(patch(world, {"runtime": {"image": "https://r/x:2"}}))
    assert refused(patch(world, {"pd": {"sharedMemory": "17Ei"}}))
    assert patch(world, {"runtime": {"image": "r/x:2"}, "pd": {"sharedMemory": "16Gi"}}).message == ""
    assert refused(patch(world, {"runtime": {"image": "https://r/x:1"}}))


async def test_a_list_of_variables_with_an_older_value_can_be_changed_and_a_list_of_arguments_only_corrected(
    world: World,
) -> None:
    store(world, {"pd.env": env("HOME", value="/root"), "pd.args": ["--config", "/etc/vllm.yaml"]})
    assert patch(world, {"pd": {"env": env("HOME", value="/root") + env("A", value="1")}}).message == ""
    answer = patch(world, {"pd": {"args": ["--config", "/etc/vllm.yaml", "--enforce-eager"]}})
    assert [field for field, _ in answer.causes] == ["spec.pd.args[0]"]
    assert patch(world, {"pd": {"args": ["--enforce-eager"]}}).message == ""


WITH_VOLUMES = {
    "without volumes": ({}, ""),
    "with volumes": (mounts("/data"), "spec.pools has no pool with this name"),
}


@pytest.mark.parametrize(("template", "message"), WITH_VOLUMES.values(), ids=WITH_VOLUMES)
async def test_rules_of_the_whole_spec_refuse_a_write_of_the_status_only_of_pods_with_volumes(
    world: World, template: dict[str, Any], message: str
) -> None:
    """The API server cannot compare volumes. So no new rule of the whole spec may refuse what was accepted before."""
    store(world, {"pd.pool": "removed", "podTemplate": template})
    path = f"{PRIMARIES.format(world.namespace)}/qwen/status"
    answer = world.server.client.request("PATCH", path, {"status": {"summary": "1/1"}}, content_type=MERGE)
    assert answer.ok is (message == "")
    assert message in answer.message

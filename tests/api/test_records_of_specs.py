"""The records of the specs that an object has had, on a real API server: missing rights, and secrets in them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from epd_operator.cluster.errors import RefusedError
from epd_operator.objects.kinds import EPD_DEPLOYMENT
from support import life_cycle as life
from support.installed_operator import token_of
from support.operated import World
from support.rights import RBAC
from support.rollouts import REVISION, Switch, new_switch, operator_of
from support.specs import raw_spec
from support.waiting import eventually

ACCOUNT = "operator"
OTHER_GROUPS = ["", "epd.dev", "events.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io"]
OLD_RULES = [
    {"apiGroups": OTHER_GROUPS, "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]},
]
"""Rights as before revisions: of the group apps only Deployments."""
ALL_RULES = [*OLD_RULES, {"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": ["*"]}]
AGGREGATED = raw_spec("Aggregated")


def with_image(number: int) -> dict[str, Any]:
    """A spec with another image, which old and new pods do not have in common."""
    return raw_spec("Aggregated", runtime={"image": f"example.test/epd:{number}"})


def grant(world: World, rules: list[dict[str, Any]]) -> None:
    """Give these rights to the ServiceAccount, in place of those that it has."""
    name = f"{world.namespace}-{ACCOUNT}"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    assert world.server.client.apply(f"{RBAC}/clusterroles/{name}", {**role, "rules": rules}).ok
    binding = {
        **role,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": world.namespace}],
    }
    assert world.server.client.apply(f"{RBAC}/clusterrolebindings/{name}", binding).ok


@pytest.fixture
async def limited(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Switch]:
    """An operator of this version with a ClusterRole from before revisions, and an object that serves."""
    accounts = f"/api/v1/namespaces/{world.namespace}/serviceaccounts"
    assert world.server.client.create(accounts, {"metadata": {"name": ACCOUNT}}).ok
    grant(world, OLD_RULES)
    config = json.loads(world.server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token_of(world.server, namespace=world.namespace, account=ACCOUNT)}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    async with operator_of(world) as switch:
        yield switch


async def until_recorded(switch: Switch) -> None:
    """Reconcile until the API server knows the right, and the operator has used it."""

    async def recorded() -> bool:
        await switch.reconcile()
        return bool(await switch.records())

    await eventually(recorded, state=switch.world.conditions)


async def test_without_the_right_on_records_pods_are_replaced_in_place_and_the_status_reports_it(
    limited: Switch,
) -> None:
    world = limited.world
    world.create(AGGREGATED)
    await limited.finish()
    limited.replace_spec(with_image(2))
    await limited.finish()
    deployments = await limited.deployments()
    assert set(deployments) == {"qwen-frontend", "qwen-worker"}
    for found in deployments.values():
        assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "example.test/epd:2"
    conditions = await world.conditions()
    assert conditions["Available"]["status"] == "True"
    assert (conditions["Stalled"]["status"], conditions["Stalled"]["reason"]) == ("True", "ChildRefused")
    assert 'cannot list resource "controllerrevisions"' in conditions["Stalled"]["message"]
    assert await limited.reconcile() == []

    grant(world, ALL_RULES)
    await until_recorded(limited)
    await limited.finish()
    assert [record["metadata"]["labels"][REVISION] for record in await limited.records()] == ["initial"]
    assert set(await limited.deployments()) == {"qwen-frontend", "qwen-worker"}
    assert (await world.conditions())["Stalled"]["status"] == "False"


async def test_without_the_right_on_records_an_object_between_two_revisions_is_not_changed(limited: Switch) -> None:
    world = limited.world
    grant(world, ALL_RULES)
    world.create(AGGREGATED)
    await until_recorded(limited)
    await limited.finish()
    limited.replace_spec(raw_spec())
    await limited.settle()
    before = await limited.deployments()
    assert len(before) == 4
    grant(world, OLD_RULES)

    async def refused() -> bool:
        try:
            await limited.reconcile()
        except RefusedError:
            return True
        return False

    await eventually(refused, state=world.conditions)
    with pytest.raises(RefusedError, match="controllerrevisions"):
        await limited.reconcile()
    assert limited.writes == []
    assert await limited.deployments() == before

    grant(world, ALL_RULES)

    async def read() -> bool:
        return not await refused()

    await eventually(read, state=world.conditions)
    await limited.finish()
    assert {name.rpartition("-")[0] for name in await limited.deployments()} == {
        "qwen-frontend",
        "qwen-encoder",
        "qwen-pd",
    }


async def test_a_record_that_another_client_deletes_in_the_middle_does_not_stop_the_change(world: World) -> None:
    async with new_switch(world) as switch:
        switch.verifier.passes = None
        switch.replace_spec(AGGREGATED)
        await switch.settle()
        both = await switch.replicas()
        (old, _) = await switch.records()
        path = f"/apis/apps/v1/namespaces/{world.namespace}/controllerrevisions/{old['metadata']['name']}"
        assert world.server.client.request("DELETE", path).ok
        await switch.settle()
        assert (await switch.replicas(), await switch.selected()) == (both, "initial")
        switch.verifier.passes = True
        await switch.finish()
        new = await switch.selected()
        assert new != "initial"
        assert set(await switch.replicas()) == {f"qwen-frontend-{new}", f"qwen-worker-{new}"}
        assert await switch.reconcile() == []


SECRET = "s3cret-of-an-earlier-spec"


def with_key(value: str) -> dict[str, Any]:
    """A spec with a literal value in a variable whose name is that of a secret."""
    runtime = {"image": "example.test/epd:1", "env": [{"name": "API_KEY", "value": value}]}
    return raw_spec("Aggregated", runtime=runtime)


async def test_a_value_that_only_an_earlier_spec_has_is_not_quoted_in_the_status(live_world: World) -> None:
    world = live_world
    world.create(with_key(SECRET))
    await life.run_all(world)
    (old, *_) = await life.pods(world, "worker")
    life.patch(world, {"spec": with_key("another-s3cret")})
    await life.until(world, "PodsStarting")
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": f"login with {SECRET} failed"}}
    crashed = life.waiting("CrashLoopBackOff", lastState=ended)
    not_ready = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False"}]}
    life.report_status(world, old, {**crashed, **not_ready})
    await life.until(world, "CrashLooping")
    status = (await world.find(EPD_DEPLOYMENT, "qwen"))["status"]
    assert "login with [value of API_KEY] failed" in json.dumps(status)
    assert SECRET not in json.dumps(status)

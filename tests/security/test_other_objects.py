"""Objects that other clients create to mislead the operator, on a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.observe import observe, read_primary
from epd_operator.objects.kinds import DEPLOYMENT, POD, SERVICE
from epd_operator.reconcile.reconciler import utc_now
from epd_operator.watch.kopf_watch import key_of_child
from support.operated import World
from support.specs import raw_spec
from support.waiting import eventually

LABELS = {"app.kubernetes.io/managed-by": "epd-operator"}


def owned_by(name: str, *, kind: str = "EPDDeployment") -> dict[str, Any]:
    return {"apiVersion": "epd.dev/v1alpha1", "kind": kind, "name": name, "uid": "made-up", "controller": True}


def make(world: World, plural: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = world.server.client.create(f"/api/v1/namespaces/{world.namespace}/{plural}", body)
    assert answer.ok, answer.message
    return answer.body


def make_account(world: World, name: str) -> None:
    make(world, "serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})


PLACES = [
    "../../../../../../api/v1/namespaces/kube-system/secrets/x",
    "..",
    ".",
    "a/status",
    "a?watch=1",
    "a%2F..",
    "A",
]


@pytest.mark.parametrize("place", PLACES)
async def test_an_owner_with_an_invalid_name_is_ignored(world: World, place: str) -> None:
    metadata = {"name": "led-astray", "labels": LABELS, "ownerReferences": [owned_by(place)]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}
    # The API server accepts such an owner, so the operator's watch delivers the object.
    made = make(world, "services", body)
    assert made["metadata"]["ownerReferences"][0]["name"] == place
    assert key_of_child(made) is None
    world.server.client.request("DELETE", f"/api/v1/namespaces/{world.namespace}/services/led-astray")


@pytest.mark.parametrize("place", PLACES[:-1])
async def test_no_request_is_made_for_a_name_that_contains_a_path(world: World, place: str) -> None:
    world.requests.clear()
    with pytest.raises(ValueError, match="not a valid name of an object"):
        await read_primary(world.cluster, namespace=world.namespace, name=place)
    assert not world.requests


async def test_pods_do_not_run_as_a_service_account_of_a_foreign_owner(world: World) -> None:
    make_account(world, "qwen-discovery")
    world.create(raw_spec("Aggregated"))
    await world.settle()
    assert (await world.conditions())["Stalled"]["reason"] == "NameTaken"
    assert await world.cluster.list(DEPLOYMENT, namespace=world.namespace) == []
    assert await world.cluster.get(SERVICE, namespace=world.namespace, name="qwen") is not None


def foreign_pod(name: str, *, labels: dict[str, str], owners: list[dict[str, Any]]) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels, "ownerReferences": owners}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "example.test/x"}], "automountServiceAccountToken": False},
    }  # fmt: skip


async def test_pods_of_other_owners_with_the_labels_of_a_stage_are_not_observed(live_world: World) -> None:
    world = live_world
    world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 2}, frontend={"replicas": 1}))
    await world.settle()
    pods = await _pods(world.cluster, world.namespace, count=3)
    model = next(p for p in pods if p["metadata"]["labels"]["app.kubernetes.io/component"] == "worker")["metadata"]
    labels = {k: v for k, v in model["labels"].items() if k != "pod-template-hash"}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "qwen-worker", "uid": "u", "controller": True}
    for number, owners in enumerate([[], [owned_by("qwen")], [deployment]]):
        make(world, "pods", foreign_pod(f"foreign-{number}", labels=labels, owners=owners))
    found = await read_primary(world.cluster, namespace=world.namespace, name="qwen")
    assert found is not None
    seen = {pod["metadata"]["name"] for pod in (await observe(world.cluster, primary=found, now=utc_now())).pods}
    assert seen == {pod["metadata"]["name"] for pod in pods}


async def test_kubernetes_manages_a_pod_that_names_a_replica_set_as_its_owner(live_world: World) -> None:
    """The reason why the name of the ReplicaSet is enough proof: no client can add a pod to it."""
    world = live_world
    world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 1}, frontend={"replicas": 1}))
    await world.settle()
    pods = await _pods(world.cluster, world.namespace, count=2)
    model = next(p for p in pods if p["metadata"]["labels"]["app.kubernetes.io/component"] == "worker")["metadata"]
    reference = model["ownerReferences"][0]
    forged = [("true", reference), ("false", {**reference, "uid": "00000000-0000-4000-8000-000000000000"})]
    for name, owner in forged:
        make(world, "pods", foreign_pod(name, labels=model["labels"], owners=[owner]))
    rest = {pod["metadata"]["name"] for pod in await _pods(world.cluster, world.namespace, count=2)}
    assert "false" not in rest


async def _pods(cluster: Cluster, namespace: str, *, count: int) -> list[dict[str, Any]]:
    """The operator's pods that are not terminating, once there are that many."""
    selector = "epd.dev/deployment=qwen"

    async def staying() -> list[dict[str, Any]]:
        found = await cluster.list(POD, namespace=namespace, selector=selector)
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    async def complete() -> bool:
        return len(await staying()) == count

    await eventually(complete, state=staying)
    return await staying()

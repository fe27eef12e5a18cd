"""Reconciles on a real API server with its controllers: what is written, and when nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_operator.cluster.errors import FaultError, NotFoundError
from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT, POD, SERVICE, Kind
from epd_operator.plan.children.registry import CHILD_KINDS
from support.examples import deployment_files
from support.operated import PRIMARIES, World
from support.specs import TOPOLOGIES, raw_spec
from support.waiting import eventually

EXAMPLES = deployment_files()
OF_QWEN = "epd.dev/deployment=qwen"


def _with_pods(**template: Any) -> dict[str, Any]:
    return raw_spec("Aggregated", podTemplate=template)


def _mounted(mount: dict[str, Any], **source: Any) -> dict[str, Any]:
    return _with_pods(
        volumes=[{"name": "d", **(source or {"emptyDir": {}})}],
        volumeMounts=[{"name": "d", "mountPath": "/a"}, {"name": "d", "mountPath": "/b", **mount}],
    )


ODD_SPECS = {
    "one volume at two paths": _mounted({"subPath": "b"}),
    "false written out": _mounted({"readOnly": False}),
    "null written out": _mounted({}, hostPath={"path": "/x", "type": None}),
    "amounts below what the server keeps": raw_spec(
        "Aggregated",
        worker={"pool": "gb200", "resources": {"requests": {"cpu": "0.0005", "memory": "1.3333333Gi"}}},
    ),
    "an amount as a number": _mounted({}, emptyDir={"sizeLimit": 1073741824}),
    "another value for a variable with a default of ours": raw_spec(
        "Aggregated", runtime={"image": "i", "env": [{"name": "DYN_TCP_MAX_MESSAGE_SIZE", "value": "64"}]}
    ),
    "a volume of all pods replaced by a stage": raw_spec(
        "Aggregated",
        podTemplate={"volumes": [{"name": "d", "emptyDir": {}}], "volumeMounts": [{"name": "d", "mountPath": "/d"}]},
        worker={"pool": "gb200", "podTemplate": {"volumes": [{"name": "d", "hostPath": {"path": "/x"}}]}},
    ),
    "empty values": _with_pods(
        affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}, "nodeAffinity": None},
        volumes=[{"name": "d", "secret": {"secretName": "s", "items": [], "optional": False, "defaultMode": 0}}],
        annotations={"a": ""},
    ),
    "selectors of everything": _with_pods(
        affinity={
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}}
                ]
            }
        }
    ),
}


@pytest.mark.parametrize("odd", ODD_SPECS.values(), ids=ODD_SPECS.keys())
async def test_an_unusual_but_valid_spec_settles(world: World, odd: dict[str, Any]) -> None:
    world.create(odd)
    await world.settle()
    assert (await world.conditions())["Stalled"]["status"] == "False"


@pytest.mark.parametrize("topology", TOPOLOGIES)
async def test_the_first_reconcile_creates_all_children_that_can_exist_and_the_status(
    world: World, topology: str
) -> None:
    primary = world.create(raw_spec(topology))
    writes = await world.reconcile()
    deployments = {"Aggregated": 2, "CoLocated": 2, "Disaggregated": 2}[topology]
    stages = {"Aggregated": 2, "CoLocated": 2, "Disaggregated": 3}[topology]
    assert writes == [
        "APPLY ControllerRevision",
        *(["APPLY Deployment"] * deployments),
        "APPLY EPDDeployment",
        *(["APPLY NetworkPolicy"] * 2),
        *(["APPLY PodDisruptionBudget"] * stages),
        *("APPLY RoleBinding", "APPLY Service", "APPLY ServiceAccount"),
    ]
    for kind in CHILD_KINDS:
        for child in await world.cluster.list(kind, namespace=world.namespace, selector="epd.dev/deployment=qwen"):
            assert child["metadata"]["ownerReferences"][0]["uid"] == primary["metadata"]["uid"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")
async def test_a_settled_example_causes_no_writes(world: World, path: Path) -> None:
    document = yaml.safe_load(path.read_text())  # noqa: ASYNC240 - a small local file
    name = document["metadata"]["name"]
    world.create(document["spec"], name=name)
    await world.settle(name)
    for child in await world.cluster.list(DEPLOYMENT, namespace=world.namespace):
        await world.report_ready(child["metadata"]["name"])
    await world.settle(name)
    assert await world.reconcile(name) == []


async def test_quantities_that_the_server_rewrites_do_not_cause_writes(world: World) -> None:
    resources = {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"memory": "2048Mi"}}
    world.create(raw_spec("Aggregated", worker={"pool": "gb200", "resources": resources, "sharedMemory": "1024Mi"}))
    await world.settle()
    assert await world.reconcile() == []


async def test_pd_is_created_when_the_first_encoder_is_ready(world: World) -> None:
    world.create(raw_spec())
    await world.settle()
    assert await world.cluster.get(DEPLOYMENT, namespace=world.namespace, name="qwen-pd") is None
    assert (await world.conditions())["Ready"]["reason"] == "PodsStarting"
    await world.report_ready("qwen-encoder")
    assert "APPLY Deployment" in await world.reconcile()
    assert (await world.find(DEPLOYMENT, "qwen-pd"))["spec"]["replicas"] == 3


async def test_drift_of_a_child_is_corrected_with_one_write(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 9}}
    body["metadata"] = {"name": "qwen-worker", "namespace": world.namespace}
    await world.cluster.apply(DEPLOYMENT, body=body, field_manager="somebody")
    writes = await world.reconcile()
    assert writes.count("APPLY Deployment") == 1
    assert (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["replicas"] == 2


async def test_a_field_that_is_removed_from_the_spec_is_removed_from_the_child(world: World) -> None:
    limited = {"pool": "gb200", "resources": {"limits": {"memory": "1Gi"}}}
    world.create(raw_spec("Aggregated", worker=limited))
    await world.settle()
    live = await world.find(EPD_DEPLOYMENT, "qwen")
    del live["spec"]["worker"]["resources"]
    live["metadata"].pop("managedFields", None)
    answer = world.server.client.request("PUT", f"{PRIMARIES.format(world.namespace)}/qwen", live)
    assert answer.ok, answer.message
    await world.settle()
    container = (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["template"]["spec"]["containers"][0]
    assert "memory" not in container["resources"]["limits"]


async def test_a_change_of_topology_before_the_first_request_replaces_all_stages_at_once(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    live = await world.find(EPD_DEPLOYMENT, "qwen")
    live["spec"].pop("worker")
    live["spec"].update(raw_spec("CoLocated"))
    live["metadata"].pop("managedFields", None)
    assert world.server.client.request("PUT", f"{PRIMARIES.format(world.namespace)}/qwen", live).ok
    await world.settle()
    revision = (await world.find(SERVICE, "qwen"))["spec"]["selector"]["epd.dev/revision"]
    names = {d["metadata"]["name"] for d in await world.cluster.list(DEPLOYMENT, namespace=world.namespace)}
    assert revision != "initial"
    assert names == {f"qwen-frontend-{revision}", f"qwen-group-{revision}"}


CONTAINER = "/spec/template/spec/containers/0"
FOREIGN_EDITS = {
    "a Service's port": ("/api/v1/namespaces/{}/services/qwen", "/spec/ports/0/port", 8001),
    "a Service's selector": ("/api/v1/namespaces/{}/services/qwen", "/spec/selector/app", "another"),
    "what a NetworkPolicy selects": (
        "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies/qwen-pods",
        "/spec/podSelector/matchExpressions",
        [{"key": "tier", "operator": "Exists"}],
    ),
    "whom a NetworkPolicy lets in": (
        "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies/qwen-pods",
        "/spec/ingress/0/from/0/namespaceSelector",
        {},
    ),
    "what a budget selects": (
        "/apis/policy/v1/namespaces/{}/poddisruptionbudgets/qwen-worker",
        "/spec/selector/matchLabels/tier",
        "gold",
    ),
    "a budget's limit": (
        "/apis/policy/v1/namespaces/{}/poddisruptionbudgets/qwen-worker",
        "/spec/maxUnavailable",
        0,
    ),
    "a container's port": (
        "/apis/apps/v1/namespaces/{}/deployments/qwen-worker",
        f"{CONTAINER}/ports/0/containerPort",
        1,
    ),
    "a volume's source": (
        "/apis/apps/v1/namespaces/{}/deployments/qwen-worker",
        "/spec/template/spec/volumes/0",
        {"name": "epd-cache", "hostPath": {"path": "/etc"}},
    ),
    "a probe": (
        "/apis/apps/v1/namespaces/{}/deployments/qwen-worker",
        f"{CONTAINER}/readinessProbe",
        {"exec": {"command": ["true"]}},
    ),
    "a variable's source": (
        "/apis/apps/v1/namespaces/{}/deployments/qwen-worker",
        f"{CONTAINER}/env/0",
        {"name": "POD_NAME", "value": "x"},
    ),
}


@pytest.mark.parametrize(("path", "field", "value"), FOREIGN_EDITS.values(), ids=FOREIGN_EDITS.keys())
async def test_an_edit_by_another_client_that_no_apply_can_merge_is_undone(
    world: World, path: str, field: str, value: object
) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    path = path.format(world.namespace)
    before = _unordered(world.server.client.get(path).body["spec"])
    operation = "replace" if field[-1].isdigit() else "add"
    edit = [{"op": operation, "path": field, "value": value}]
    answer = world.server.client.request("PATCH", path, edit, content_type="application/json-patch+json")
    assert answer.ok, answer.message
    await world.settle()
    assert (await world.conditions())["Stalled"]["status"] == "False"
    assert _unordered(world.server.client.get(path).body["spec"]) == before


async def test_a_service_of_a_foreign_owner_is_left_unchanged_and_reported(world: World) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "qwen"}, "spec": {"ports": [{"port": 80}]}}
    world.server.client.create(f"/api/v1/namespaces/{world.namespace}/services", service)
    world.create(raw_spec("Aggregated"))
    await world.settle()
    assert (await world.find(SERVICE, "qwen"))["spec"]["ports"][0]["port"] == 80
    stalled = (await world.conditions())["Stalled"]
    assert (stalled["status"], stalled["reason"]) == ("True", "NameTaken")
    assert "Service qwen" in stalled["message"]


async def test_a_refused_child_is_reported_with_the_api_servers_message_and_the_others_are_created(
    world: World,
) -> None:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    world.create(raw_spec("Aggregated", podTemplate={"affinity": affinity}))
    await world.reconcile()
    stalled = (await world.conditions())["Stalled"]
    assert stalled["reason"] == "ChildRefused"
    assert "nodeSelectorTerms" in stalled["message"]
    assert await world.find(SERVICE, "qwen")


async def test_an_unknown_field_is_reported_with_the_api_servers_message(world: World) -> None:
    world.create(_with_pods(volumes=[{"name": "d", "hostpath": {"path": "/x"}}]))
    with pytest.raises(FaultError):
        await world.reconcile()
    stalled = (await world.conditions())["Stalled"]
    assert stalled["reason"] == "ChildRefused"
    assert "hostpath" in stalled["message"]
    assert await world.find(SERVICE, "qwen")


async def test_pods_over_a_quota_are_reported_with_the_api_servers_message(live_world: World) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    live_world.server.client.create(f"/api/v1/namespaces/{live_world.namespace}/resourcequotas", quota)
    live_world.create(raw_spec("Aggregated"))
    await live_world.settle()

    async def refused() -> bool:
        await live_world.reconcile()
        return bool((await live_world.conditions())["Ready"]["reason"] == "PodsRefused")

    await eventually(refused, state=live_world.conditions)
    assert "exceeded quota" in (await live_world.conditions())["Ready"]["message"]


async def test_all_children_are_deleted_with_their_owner_without_a_reconcile(live_world: World) -> None:
    live_world.create(raw_spec("CoLocated"))
    await live_world.settle()
    assert live_world.server.client.request("DELETE", f"{PRIMARIES.format(live_world.namespace)}/qwen").ok

    async def left() -> list[str]:
        return [
            child["metadata"]["name"]
            for kind in (*CHILD_KINDS, POD)
            for child in await live_world.cluster.list(
                kind, namespace=live_world.namespace, selector="epd.dev/deployment=qwen"
            )
        ]

    async def gone() -> bool:
        return not await left()

    await eventually(gone, state=left)
    assert await live_world.reconcile() == []


async def test_the_operator_writes_no_finalizer_and_no_annotation_into_the_users_object(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    metadata = (await world.find(EPD_DEPLOYMENT, "qwen"))["metadata"]
    assert "finalizers" not in metadata
    assert "annotations" not in metadata
    assert metadata["generation"] == 1


async def test_lists_longer_than_a_page_are_read_completely(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epd_operator.cluster.client.PAGE_SIZE", 2)
    for number in range(5):
        world.create(raw_spec("Aggregated"), name=f"n{number}")
    found = await world.cluster.list(EPD_DEPLOYMENT, namespace=world.namespace)
    assert sorted(item["metadata"]["name"] for item in found) == [f"n{number}" for number in range(5)]
    assert {item["kind"] for item in found} == {"EPDDeployment"}


async def test_a_kind_that_is_not_installed_is_not_mistaken_for_an_empty_list(world: World) -> None:
    unknown = Kind(kind="Unknown", api_version="epd.dev/v1alpha1", plural="unknowns")
    with pytest.raises(NotFoundError):
        await world.cluster.list(unknown, namespace=world.namespace)


def _unordered(value: Any) -> Any:
    """The value with all lists sorted, because the server decides where a restored item is placed."""
    if isinstance(value, dict):
        return {key: _unordered(item) for key, item in value.items()}
    return sorted((_unordered(item) for item in value), key=repr) if isinstance(value, list) else value

"""Passes of the operator against a real API server with its controllers: what is written, and when nothing is."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.cluster.client import Cluster, connect
from epd_operator.cluster.errors import FaultError, NotFoundError
from epd_operator.cluster.kinds import CHILD_KINDS, DEPLOYMENT, EPD_DEPLOYMENT, POD, SERVICE, Kind
from epd_operator.plan.identity import Identity, StageName
from epd_operator.plan.observation import Observation
from epd_operator.plan.scaling.model import Decision, ScalingReason
from epd_operator.runtime.keys import Key
from epd_operator.runtime.reconciler import Reconciler
from support.apiserver import ApiServer
from support.specs import TOPOLOGIES, raw_spec

ROOT = Path(__file__).parents[2]
PRIMARIES = "/apis/epd.dev/v1alpha1/namespaces/{}/epddeployments"
EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
READS = ("GET", "LIST")
OF_QWEN = "epd.dev/deployment=qwen"


@pytest.fixture(scope="module")
def controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(folder=tmp_path_factory.mktemp("controllers"), with_controllers=True) as started:
        started.install_crds(ROOT / "crds")
        yield started


class World:
    """One namespace of a real API server, and an operator that makes a pass when told to."""

    def __init__(self, server: ApiServer, *, cluster: Cluster, namespace: str, requests: Counter[str]) -> None:
        self.server = server
        self.cluster = cluster
        self.namespace = namespace
        self.requests = requests

    def create(self, spec: dict[str, Any], name: str = "qwen") -> dict[str, Any]:
        body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": name}, "spec": spec}
        answer = self.server.client.create(PRIMARIES.format(self.namespace), body)
        assert answer.ok, answer.message
        return answer.body

    async def run_pass(self, name: str = "qwen") -> list[str]:
        """One pass; returns the writes as verb and kind."""
        self.requests.clear()
        await Reconciler(self.cluster).reconcile(Key(self.namespace, name))
        return sorted(r for r, n in self.requests.items() for _ in range(n) if not r.startswith(READS))

    async def settle(self, name: str = "qwen") -> None:
        """Passes until one writes nothing, as events would cause them."""
        for _ in range(20):
            if not await self.run_pass(name):
                return
        raise AssertionError(f"still writing after 20 passes: {self.requests}")

    async def find(self, kind: Kind, name: str) -> dict[str, Any]:
        found = await self.cluster.get(kind, namespace=self.namespace, name=name)
        assert found is not None, f"{kind.kind} {name}"
        return found

    async def conditions(self, name: str = "qwen") -> dict[str, dict[str, Any]]:
        found = await self.find(EPD_DEPLOYMENT, name)
        return {c["type"]: c for c in found["status"]["conditions"]}

    async def report_ready(self, name: str) -> None:
        """Be the nodes: say that all pods of a Deployment are ready."""
        live = await self.find(DEPLOYMENT, name)
        replicas = live["spec"]["replicas"]
        counts = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
        status = {"observedGeneration": live["metadata"]["generation"], **dict.fromkeys(counts, replicas)}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "status": status}
        body["metadata"] = {"name": name, "namespace": self.namespace}
        await self.cluster.apply(DEPLOYMENT, body=body, field_manager="nodes", subresource="status")


@asynccontextmanager
async def new_world(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    namespace = f"test-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    assert server.client.create("/api/v1/namespaces", body).ok
    requests: Counter[str] = Counter()

    def count(verb: str, kind: str, _status: int) -> None:
        requests[f"{verb} {kind}"] += 1

    async with connect(on_request=count) as cluster:
        yield World(server, cluster=cluster, namespace=namespace, requests=requests)


@pytest.fixture
async def world(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """Without controllers: only the operator and the test write."""
    async with new_world(api_server, monkeypatch) as made:
        yield made


@pytest.fixture
async def live_world(controllers: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """With the real controllers of Deployments, ReplicaSets, quotas and garbage."""
    async with new_world(controllers, monkeypatch) as made:
        yield made


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
    "a variable of ours set by the user": raw_spec(
        "Aggregated", runtime={"image": "i", "env": [{"name": "HOME", "value": "/x"}]}
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
async def test_an_odd_but_legal_spec_settles_too(world: World, odd: dict[str, Any]) -> None:
    world.create(odd)
    await world.settle()
    assert (await world.conditions())["Stalled"]["status"] == "False"


@pytest.mark.parametrize("topology", TOPOLOGIES)
async def test_the_first_pass_makes_all_children_that_may_exist_and_the_status(world: World, topology: str) -> None:
    primary = world.create(raw_spec(topology))
    writes = await world.run_pass()
    deployments = {"Aggregated": 2, "CoLocated": 2, "Disaggregated": 2}[topology]
    expected = ["APPLY Deployment"] * deployments + ["APPLY EPDDeployment", "APPLY RoleBinding", "APPLY Service"]
    assert writes == [*expected, "APPLY ServiceAccount"]
    for kind in CHILD_KINDS:
        for child in await world.cluster.list(kind, namespace=world.namespace, selector="epd.dev/deployment=qwen"):
            assert child["metadata"]["ownerReferences"][0]["uid"] == primary["metadata"]["uid"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")
async def test_a_settled_example_is_never_written_again(world: World, path: Path) -> None:
    document = yaml.safe_load(path.read_text())  # noqa: ASYNC240 - a small local file
    name = document["metadata"]["name"]
    world.create(document["spec"], name=name)
    await world.settle(name)
    for child in await world.cluster.list(DEPLOYMENT, namespace=world.namespace):
        await world.report_ready(child["metadata"]["name"])
    await world.settle(name)
    assert await world.run_pass(name) == []


async def test_quantities_that_the_server_rewrites_do_not_cause_writes(world: World) -> None:
    resources = {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"memory": "2048Mi"}}
    world.create(raw_spec("Aggregated", worker={"pool": "gb200", "resources": resources, "sharedMemory": "1024Mi"}))
    await world.settle()
    assert await world.run_pass() == []


async def test_pd_follows_the_first_ready_encoder(world: World) -> None:
    world.create(raw_spec())
    await world.settle()
    assert await world.cluster.get(DEPLOYMENT, namespace=world.namespace, name="qwen-pd") is None
    assert (await world.conditions())["Ready"]["reason"] == "PodsStarting"
    await world.report_ready("qwen-encoder")
    assert "APPLY Deployment" in await world.run_pass()
    assert (await world.find(DEPLOYMENT, "qwen-pd"))["spec"]["replicas"] == 3


async def test_what_somebody_changed_in_a_child_is_put_right_with_one_write(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 9}}
    body["metadata"] = {"name": "qwen-worker", "namespace": world.namespace}
    await world.cluster.apply(DEPLOYMENT, body=body, field_manager="somebody")
    writes = await world.run_pass()
    assert writes.count("APPLY Deployment") == 1
    assert (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["replicas"] == 2


async def test_a_field_that_leaves_the_spec_leaves_the_child(world: World) -> None:
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


async def test_another_topology_replaces_the_stages_and_removes_what_is_left_over(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    live = await world.find(EPD_DEPLOYMENT, "qwen")
    live["spec"].pop("worker")
    live["spec"].update(raw_spec("CoLocated"))
    live["metadata"].pop("managedFields", None)
    assert world.server.client.request("PUT", f"{PRIMARIES.format(world.namespace)}/qwen", live).ok
    await world.settle()
    names = {d["metadata"]["name"] for d in await world.cluster.list(DEPLOYMENT, namespace=world.namespace)}
    assert names == {"qwen-frontend", "qwen-group"}


CONTAINER = "/spec/template/spec/containers/0"
QUARRELS = {
    "a Service's port": ("/api/v1/namespaces/{}/services/qwen", "/spec/ports/0/port", 8001),
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


@pytest.mark.parametrize(("path", "field", "value"), QUARRELS.values(), ids=QUARRELS.keys())
async def test_a_strangers_edit_that_no_apply_can_merge_is_undone(
    world: World, path: str, field: str, value: object
) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    path = path.format(world.namespace)
    before = _unordered(world.server.client.get(path).body["spec"])
    edit = [{"op": "replace", "path": field, "value": value}]
    answer = world.server.client.request("PATCH", path, edit, content_type="application/json-patch+json")
    assert answer.ok, answer.message
    await world.settle()
    assert (await world.conditions())["Stalled"]["status"] == "False"
    assert _unordered(world.server.client.get(path).body["spec"]) == before


async def test_a_service_of_a_stranger_is_left_alone_and_told(world: World) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "qwen"}, "spec": {"ports": [{"port": 80}]}}
    world.server.client.create(f"/api/v1/namespaces/{world.namespace}/services", service)
    world.create(raw_spec("Aggregated"))
    await world.settle()
    assert (await world.find(SERVICE, "qwen"))["spec"]["ports"][0]["port"] == 80
    stalled = (await world.conditions())["Stalled"]
    assert (stalled["status"], stalled["reason"]) == ("True", "NameTaken")
    assert "Service qwen" in stalled["message"]


async def test_a_child_that_the_api_server_refuses_is_told_with_its_words_and_the_others_are_made(world: World) -> None:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    world.create(raw_spec("Aggregated", podTemplate={"affinity": affinity}))
    await world.run_pass()
    stalled = (await world.conditions())["Stalled"]
    assert stalled["reason"] == "ChildRefused"
    assert "nodeSelectorTerms" in stalled["message"]
    assert await world.find(SERVICE, "qwen")


async def test_a_field_that_the_api_server_does_not_know_is_told_with_its_words(world: World) -> None:
    world.create(_with_pods(volumes=[{"name": "d", "hostpath": {"path": "/x"}}]))
    with pytest.raises(FaultError):
        await world.run_pass()
    stalled = (await world.conditions())["Stalled"]
    assert stalled["reason"] == "ChildRefused"
    assert "hostpath" in stalled["message"]
    assert await world.find(SERVICE, "qwen")


async def test_pods_over_a_quota_are_told_with_the_api_servers_words(live_world: World) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    live_world.server.client.create(f"/api/v1/namespaces/{live_world.namespace}/resourcequotas", quota)
    live_world.create(raw_spec("Aggregated"))
    await live_world.settle()
    reason = ""
    for _ in range(100):
        await live_world.run_pass()
        reason = (await live_world.conditions())["Ready"]["reason"]
        if reason == "PodsRefused":
            break
        await _moment()
    assert reason == "PodsRefused"
    assert "exceeded quota" in (await live_world.conditions())["Ready"]["message"]


async def test_all_children_go_with_their_owner_though_no_pass_is_made(live_world: World) -> None:
    live_world.create(raw_spec("CoLocated"))
    await live_world.settle()
    assert live_world.server.client.request("DELETE", f"{PRIMARIES.format(live_world.namespace)}/qwen").ok
    left: list[str] = []
    for _ in range(300):
        left = [
            child["metadata"]["name"]
            for kind in (*CHILD_KINDS, POD)
            for child in await live_world.cluster.list(
                kind, namespace=live_world.namespace, selector="epd.dev/deployment=qwen"
            )
        ]
        if not left:
            break
        await _moment()
    assert left == []
    assert await live_world.run_pass() == []


async def test_the_operator_writes_no_finalizer_and_no_annotation_into_the_users_object(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    metadata = (await world.find(EPD_DEPLOYMENT, "qwen"))["metadata"]
    assert "finalizers" not in metadata
    assert "annotations" not in metadata
    assert metadata["generation"] == 1


async def test_lists_longer_than_a_page_are_read_whole(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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
    """The value with all lists in one order: where an item is put back is the server's choice."""
    if isinstance(value, dict):
        return {key: _unordered(item) for key, item in value.items()}
    return sorted((_unordered(item) for item in value), key=repr) if isinstance(value, list) else value


async def _moment() -> None:
    await asyncio.sleep(0.2)


async def test_the_scale_of_a_stage_can_be_driven_by_somebody_else_and_is_not_fought_over(world: World) -> None:
    external = {"pool": "gb200", "replicas": 3, "autoscaling": {"mode": "External", "maxReplicas": 9}}
    world.create(raw_spec("Aggregated", worker=external))
    await world.settle()
    path = f"/apis/epd.dev/v1alpha1/namespaces/{world.namespace}/epdstagescales/qwen-worker/scale"
    scale = world.server.client.get(path).body
    assert scale["spec"]["replicas"] == 3
    assert "epd.dev/deployment=qwen" in scale["status"]["selector"]
    scale["spec"]["replicas"] = 5
    assert world.server.client.request("PUT", path, scale).ok
    await world.settle()
    assert (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["replicas"] == 5
    assert world.server.client.get(path).body["spec"]["replicas"] == 5
    assert (await world.find(EPD_DEPLOYMENT, "qwen"))["metadata"]["generation"] == 1
    assert await world.run_pass() == []


class Decided:
    """A scaler that has decided."""

    def __init__(self, desired: int, *, loads: dict[str, float]) -> None:
        self._desired = desired
        self._loads = loads

    def decisions(self, _key: Key, *, identity: Identity) -> dict[StageName, Decision]:
        decision = Decision(
            stage=StageName.WORKER,
            current=3,
            desired=self._desired,
            reason=ScalingReason.LOAD_BELOW_TARGET,
            message=f"{identity.name} is idle",
        )
        return {StageName.WORKER: decision}

    def loads(self, _key: Key) -> dict[str, float]:
        return self._loads

    def watch(self, key: Key, *, spec: EPDDeploymentSpec, observation: Observation) -> None:
        """Nothing to remember."""

    def forget(self, key: Key) -> None:
        """Nothing to forget."""


async def test_the_operators_own_number_is_kept_out_of_the_spec_and_the_least_busy_pod_goes(live_world: World) -> None:
    world, key = live_world, Key(live_world.namespace, "qwen")
    autoscaling = {"maxReplicas": 9, "metrics": [{"type": "Requests", "targetPerReplica": 8}]}
    world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 3, "autoscaling": autoscaling}))
    await world.settle()
    workers = "epd.dev/deployment=qwen,app.kubernetes.io/component=worker"

    async def pods() -> set[str]:
        found = await world.cluster.list(POD, namespace=world.namespace, selector=workers)
        return {pod["metadata"]["name"] for pod in found if not pod["metadata"].get("deletionTimestamp")}

    for _ in range(300):
        if len(await pods()) == 3:
            break
        await _moment()
    busy, idle, busier = sorted(await pods())
    scaler = Decided(2, loads={busy: 4.0, idle: 0.0, busier: 9.0})
    await Reconciler(world.cluster, scaling=scaler).reconcile(key)
    for _ in range(300):
        if len(await pods()) == 2:
            break
        await _moment()
    assert await pods() == {busy, busier}
    primary = await world.find(EPD_DEPLOYMENT, "qwen")
    assert primary["metadata"]["generation"] == 1
    assert primary["spec"]["worker"]["replicas"] == 3
    assert primary["status"]["stages"][1]["scaling"]["desired"] == 2

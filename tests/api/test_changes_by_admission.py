"""Mutating admission policies of other teams, and edits of children by other clients, on a real API server."""

from __future__ import annotations

import itertools
import re
from contextlib import ExitStack
from typing import Any

import pytest

from epd_operator.cluster.apply_child import apply_child
from epd_operator.cluster.errors import TooLargeError
from epd_operator.objects.identity import Identity, Key
from epd_operator.objects.kinds import (
    CONTROLLER_REVISION,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    EPD_DEPLOYMENT,
    NETWORK_POLICY,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    STAGE_SCALE,
    Kind,
)
from epd_operator.plan.children.registry import CHILD_KINDS
from epd_operator.plan.observation import KubernetesObject, Observation
from epd_operator.plan.planner import make_plan
from epd_operator.plan.status.status_events import StatusEvent
from epd_operator.reconcile.reconciler import Reconciler
from epd_operator.telemetry.reports import Report
from support.life_cycle import patch
from support.mutation import mutating, setting
from support.operated import READS, World
from support.specs import TOPOLOGIES, raw_spec, spec

POD = "/spec/template/spec"
EDITS_OF_DEPLOYMENTS: dict[str, tuple[str, object]] = {
    f"{POD}/containers/0/image": ("image", "mirror.example.com/worker:1"),
    f"{POD}/containers/0/imagePullPolicy": ("imagePullPolicy", "Always"),
    f"{POD}/containers/0/resources": ("resources.requests", {"requests": {"cpu": "500m"}}),
    f"{POD}/tolerations": ("tolerations", [{"key": "policy", "operator": "Exists"}]),
    f"{POD}/hostNetwork": ("hostNetwork", True),
    f"{POD}/containers/-": ("containers[sidecar]", {"name": "sidecar", "image": "mirror.example.com/mesh:1"}),
}
EDITS_OF_KINDS: dict[Kind, tuple[str, object]] = {
    CONTROLLER_REVISION: ("/data/spec/topology", "CoLocated"),
    SERVICE_ACCOUNT: ("/automountServiceAccountToken", False),
    ROLE_BINDING: ("/roleRef", {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "other"}),
    SERVICE: ("/spec/type", "NodePort"),
    NETWORK_POLICY: ("/spec/ingress", [{"ports": [{"protocol": "TCP"}]}]),
    DISRUPTION_BUDGET: ("/spec/maxUnavailable", 1),
    STAGE_SCALE: ("/metadata/labels", {"epd.dev/deployment": "qwen"}),
    DEPLOYMENT: (f"{POD}/enableServiceLinks", True),
}


class Events:
    """Receives the reports of a reconciler, and keeps its events."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def began(self, key: Key, *, generation: int, status: KubernetesObject) -> None:
        """Not needed here."""

    def computed(self, key: Key, report: Report) -> None:
        """Not needed here."""

    def wrote(self, key: Key, report: Report) -> None:
        """Not needed here."""

    def gone(self, key: Key) -> None:
        """Not needed here."""

    def noticed(self, identity: Identity, event: StatusEvent) -> None:  # noqa: ARG002 - one object
        """Keep the note."""
        assert (event.reason, event.type) == ("ChangedByAdmission", "Normal")
        self.notes.append(event.note)


class Operator:
    """One operator process: it keeps its memory between reconciles."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.events = Events()
        self._reconciler = Reconciler(world.cluster, reports=self.events)

    async def reconcile(self) -> list[str]:
        """Reconcile once; returns the writes."""
        self.world.requests.clear()
        await self._reconciler.reconcile(Key(self.world.namespace, "qwen"))
        return sorted(r for r in self.world.requests.elements() if not r.startswith(READS))

    async def settle(self) -> None:
        """Reconcile until nothing is written; then nothing more may be written."""
        for _ in range(10):
            if not await self.reconcile():
                break
        assert [await self.reconcile() for _ in range(3)] == [[], [], []]


async def contents(world: World) -> dict[str, str]:
    """The uid and the content of every child."""
    found = {}
    for kind in CHILD_KINDS:
        for child in await world.cluster.list(kind, namespace=world.namespace, selector="epd.dev/deployment=qwen"):
            found[f"{kind.kind} {child['metadata']['name']}"] = f"{child['metadata']['uid']} {_content(child)}"
    return found


def edit(world: World, kind: Kind, name: str, path: str, value: object) -> None:
    operation = [{"op": "add", "path": path, "value": value}]
    target = kind.path(namespace=world.namespace, name=name)
    answer = world.server.client.request("PATCH", target, operation, content_type="application/json-patch+json")
    assert answer.ok, answer.message


def external() -> dict[str, Any]:
    """A spec with children of every kind."""
    return raw_spec("Aggregated", worker={"pool": "gb200", "autoscaling": {"mode": "External", "maxReplicas": 3}})


async def report_ready(world: World) -> None:
    for child in await world.cluster.list(DEPLOYMENT, namespace=world.namespace):
        await world.report_ready(child["metadata"]["name"])


@pytest.mark.parametrize("path", EDITS_OF_DEPLOYMENTS)
async def test_what_a_policy_makes_of_a_deployment_is_current_and_reported_once(world: World, path: str) -> None:
    field, value = EDITS_OF_DEPLOYMENTS[path]
    operator = Operator(world)
    world.create(raw_spec("Aggregated"))
    # An item must be appended only once: the API server applies to an object that has it already.
    change = setting(path, value)
    if path.endswith("-"):
        change = f'object.spec.template.spec.containers.exists(c, c.name == "sidecar") ? [] : {change}'
    with mutating(world, DEPLOYMENT, change):
        await operator.settle()
        await report_ready(world)
        await operator.settle()
        assert (await world.conditions())["Ready"]["status"] == "True"
        about_worker = [note for note in operator.events.notes if note.startswith("Deployment qwen-worker:")]
        assert len(about_worker) == 1
        assert field in about_worker[0]
        assert "mirror.example.com" not in about_worker[0]


@pytest.mark.parametrize("kind", CHILD_KINDS, ids=lambda kind: kind.kind)
async def test_a_policy_on_any_kind_of_child_causes_no_write_at_rest_and_survives_a_restart(
    world: World, kind: Kind
) -> None:
    world.create(external())
    with mutating(world, kind, setting(*EDITS_OF_KINDS[kind])):
        operator = Operator(world)
        await operator.settle()
        await report_ready(world)
        await operator.settle()
        assert operator.events.notes
        before, status = await contents(world), (await world.find(EPD_DEPLOYMENT, "qwen"))["status"]
        restarted = Operator(world)
        await restarted.reconcile()
        assert [await restarted.reconcile() for _ in range(3)] == [[], [], []]
        assert await contents(world) == before
        assert (await world.find(EPD_DEPLOYMENT, "qwen"))["status"] == status


async def test_the_values_of_the_plan_come_back_after_the_policy_is_gone_and_the_operator_restarts(
    world: World,
) -> None:
    world.create(raw_spec("Aggregated"))
    operator = Operator(world)
    with mutating(world, DEPLOYMENT, setting(f"{POD}/hostNetwork", value=True)):
        await operator.settle()
    assert (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["template"]["spec"]["hostNetwork"] is True
    await Operator(world).settle()
    assert "hostNetwork" not in (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["template"]["spec"]


async def test_a_refused_apply_changes_nothing_that_is_remembered(world: World) -> None:
    operator = Operator(world)
    world.create(raw_spec("Aggregated"))
    with mutating(world, DEPLOYMENT, setting(f"{POD}/containers/0/image", "mirror.example.com/worker:1")):
        await operator.settle()
        before, notes = await contents(world), [*operator.events.notes]
        records = [name for name in before if name.startswith("ControllerRevision ")]
        no_terms = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
        patch(world, {"spec": {"podTemplate": {"affinity": no_terms}}})
        assert "APPLY Deployment" in await operator.reconcile()
        assert (await world.conditions())["Stalled"]["reason"] == "ChildRefused"
        patch(world, {"spec": {"podTemplate": None}})
        # The recorded spec gets a new number, because it is the latest again.
        assert await operator.reconcile() == ["APPLY ControllerRevision", "APPLY EPDDeployment"]
        assert await operator.reconcile() == []
        after = await contents(world)
        assert {name: after[name] for name in before if name not in records} == {
            name: content for name, content in before.items() if name not in records
        }
        assert operator.events.notes == notes


@pytest.mark.parametrize("topology", TOPOLOGIES)
async def test_a_settled_object_of_each_topology_causes_no_write_under_policies_on_all_its_children(
    world: World, topology: str
) -> None:
    operator, scaled = Operator(world), {"pool": "gb200", "autoscaling": {"mode": "External", "maxReplicas": 3}}
    stage = {"Aggregated": "worker", "CoLocated": "group", "Disaggregated": "pd"}[topology]
    world.create(raw_spec(topology, **{stage: scaled}))
    with ExitStack() as policies:
        for kind in CHILD_KINDS:
            policies.enter_context(mutating(world, kind, setting(*EDITS_OF_KINDS[kind])))
        # PD pods are created when the first encoder is ready.
        for _ in range(2):
            await operator.settle()
            await report_ready(world)
        await operator.settle()
        assert (await world.conditions())["Ready"]["status"] == "True"
        assert [await operator.reconcile() for _ in range(10)] == [[]] * 10


async def test_a_manual_edit_to_a_third_value_is_undone(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    operator = Operator(world)
    with mutating(world, SERVICE, setting("/spec/type", "NodePort")):
        await operator.settle()
        port = (await world.find(SERVICE, "qwen"))["spec"]["ports"][0]["port"]
        edit(world, SERVICE, "qwen", "/spec/ports/0/port", 9999)
        await operator.settle()
        live = (await world.find(SERVICE, "qwen"))["spec"]
        assert (live["ports"][0]["port"], live["type"]) == (port, "NodePort")
        assert len(operator.events.notes) == 1


async def test_a_policy_that_changes_later_is_followed(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    operator = Operator(world)
    image = f"{POD}/containers/0/image"
    with mutating(world, DEPLOYMENT, setting(image, "mirror.example.com/a:1")):
        await operator.settle()
    with mutating(world, DEPLOYMENT, setting(image, "mirror.example.com/b:1")):
        edit(world, DEPLOYMENT, "qwen-worker", "/spec/minReadySeconds", 5)
        await operator.settle()
        live = (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]
        assert live["template"]["spec"]["containers"][0]["image"] == "mirror.example.com/b:1"
        assert "minReadySeconds" not in live


async def test_a_policy_that_sets_another_value_each_time_ends_after_few_writes_and_is_named(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    operator = Operator(world)
    counter = '="x" + string(has(object.metadata.generation) ? object.metadata.generation : 0)'
    with mutating(world, DEPLOYMENT, setting(f"{POD}/containers/0/image", counter)):
        await operator.settle()
        writes = 0
        for number in itertools.count():
            # Each write of another client makes the policy change the value.
            edit(world, DEPLOYMENT, "qwen-worker", "/metadata/annotations/touched", str(number))
            found = await operator.reconcile()
            writes += found.count("APPLY Deployment")
            if not found or number > 10:
                break
        assert 1 <= writes <= 4
        assert any("again and again" in note and "[main].image" in note for note in operator.events.notes), (
            operator.events.notes
        )


FOREIGN_ADDITIONS: dict[str, tuple[Kind, str, str, object]] = {
    "paused": (DEPLOYMENT, "qwen-worker", "/spec/paused", True),
    "minReadySeconds": (DEPLOYMENT, "qwen-worker", "/spec/minReadySeconds", 60),
    "hostNetwork": (DEPLOYMENT, "qwen-worker", f"{POD}/hostNetwork", True),
    "hostPID": (DEPLOYMENT, "qwen-worker", f"{POD}/hostPID", True),
    "hostIPC": (DEPLOYMENT, "qwen-worker", f"{POD}/hostIPC", True),
    "a container": (DEPLOYMENT, "qwen-worker", f"{POD}/containers/-", {"name": "extra", "image": "i"}),
    "init containers": (DEPLOYMENT, "qwen-worker", f"{POD}/initContainers", [{"name": "extra", "image": "i"}]),
    "arguments": (DEPLOYMENT, "qwen-worker", f"{POD}/containers/0/args", ["--more"]),
    "privileges": (DEPLOYMENT, "qwen-worker", f"{POD}/containers/0/securityContext/runAsGroup", 0),
    "limits": (DEPLOYMENT, "qwen-worker", f"{POD}/containers/0/resources/limits", {"nvidia.com/gpu": "8"}),
    "the node": (DEPLOYMENT, "qwen-worker", f"{POD}/nodeName", "node-1"),
    "tolerations": (DEPLOYMENT, "qwen-frontend", f"{POD}/tolerations", [{"operator": "Exists"}]),
    "no token": (SERVICE_ACCOUNT, "qwen-discovery", "/automountServiceAccountToken", False),
    "a port": (SERVICE, "qwen", "/spec/ports/-", {"name": "system", "port": 9090, "targetPort": 9090}),
    "addresses": (SERVICE, "qwen", "/spec/externalIPs", ["192.0.2.1"]),
    "pods that are not ready": (SERVICE, "qwen", "/spec/publishNotReadyAddresses", True),
    "egress": (NETWORK_POLICY, "qwen-pods", "/spec/egress", [{}]),
    "subjects": (ROLE_BINDING, "qwen-discovery", "/subjects/-", {"kind": "ServiceAccount", "name": "x"}),
    "selected pods": (DISRUPTION_BUDGET, "qwen-worker", "/spec/selector/matchLabels/tier", "gold"),
}


@pytest.mark.parametrize(("kind", "name", "path", "value"), FOREIGN_ADDITIONS.values(), ids=FOREIGN_ADDITIONS.keys())
async def test_a_field_that_another_client_adds_and_that_changes_the_plan_is_removed(
    world: World, kind: Kind, name: str, path: str, value: object
) -> None:
    operator = Operator(world)
    world.create(raw_spec("Aggregated"))
    await operator.settle()
    before = _content(await world.find(kind, name))
    if isinstance(value, dict) and kind is ROLE_BINDING:
        value = {**value, "namespace": world.namespace}
    edit(world, kind, name, path, value)
    assert _content(await world.find(kind, name)) != before
    await operator.settle()
    assert _content(await world.find(kind, name)) == before
    assert operator.events.notes == []


async def test_the_annotation_of_a_restart_by_kubectl_is_kept(world: World) -> None:
    operator = Operator(world)
    world.create(raw_spec("Aggregated"))
    await operator.settle()
    restarted = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    edit(world, DEPLOYMENT, "qwen-worker", "/spec/template/metadata/annotations", restarted)
    assert await operator.reconcile() == []


def _content(live: dict[str, Any]) -> dict[str, Any]:
    """The object without its metadata and status."""
    return {name: value for name, value in live.items() if name not in ("metadata", "status")}


@pytest.mark.parametrize("count", [60, 80])
async def test_an_object_that_etcd_does_not_take_is_refused_with_its_largest_field(world: World, count: int) -> None:
    primary = world.create(raw_spec("Aggregated"))
    identity = Identity(name="qwen", namespace=world.namespace, uid=primary["metadata"]["uid"])
    plan = make_plan(spec("Aggregated"), observation=Observation(identity=identity, generation=1))
    child = next(child for child in plan.children if child["kind"] == "Deployment")
    variables = [{"name": f"BLOB_{number}", "value": "x" * 30_000} for number in range(count)]
    child["spec"]["template"]["spec"]["containers"][0]["env"] = variables
    with pytest.raises(TooLargeError) as caught:
        await apply_child(world.cluster, child=child, live=None)
    assert "the object is too large" in caught.value.message
    assert re.search(r"spec.template.spec.containers(\[[a-z-]+\])?.env \(", caught.value.message), caught.value.message[
        :400
    ]
    assert "xxxx" not in caught.value.message

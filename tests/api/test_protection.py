"""NetworkPolicies, PodDisruptionBudgets and the role of the pods, against a real API server with its controllers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from epd_operator.cluster.client import Cluster, connect
from epd_operator.objects.identity import Key
from epd_operator.objects.kinds import DISRUPTION_BUDGET, EPD_DEPLOYMENT, NETWORK_POLICY, POD, ROLE_BINDING, Kind
from epd_operator.plan.children.child_kind import Settings
from epd_operator.reconcile.reconciler import Reconciler, Result
from support.client import Answer, Client
from support.operated import PRIMARIES, World
from support.specs import raw_spec
from support.waiting import eventually

MERGE = "application/merge-patch+json"
STAGE = {"Aggregated": "worker", "CoLocated": "group"}
SWITCHES = [("networkPolicy", NETWORK_POLICY, 2), ("disruptionBudget", DISRUPTION_BUDGET, 3)]


def change(world: World, spec: dict[str, Any]) -> None:
    path = f"{PRIMARIES.format(world.namespace)}/qwen"
    answer = world.server.client.request("PATCH", path, {"spec": spec}, content_type=MERGE)
    assert answer.ok, answer.message


async def names(world: World, kind: Kind) -> list[str]:
    return sorted(c["metadata"]["name"] for c in await world.cluster.list(kind, namespace=world.namespace))


# Managed and Unmanaged


@pytest.mark.parametrize(("field", "kind", "count"), SWITCHES)
async def test_unmanaged_children_are_removed_and_managed_ones_are_recreated(
    world: World, field: str, kind: Kind, count: int
) -> None:
    world.create(raw_spec())
    await world.settle()
    assert len(await names(world, kind)) == count
    change(world, {field: {"mode": "Unmanaged"}})
    await world.settle()
    assert await names(world, kind) == []
    change(world, {field: {"mode": "Managed"}})
    await world.settle()
    assert len(await names(world, kind)) == count


@pytest.mark.parametrize(("field", "kind", "count"), SWITCHES)
async def test_an_object_older_than_the_fields_is_protected_without_a_new_generation(
    world: World, field: str, kind: Kind, count: int
) -> None:
    world.create(raw_spec())
    await world.settle()
    live = await world.find(EPD_DEPLOYMENT, "qwen")
    assert live["spec"][field] == {"mode": "Managed"}
    assert live["metadata"]["generation"] == 1
    assert len(await names(world, kind)) == count


async def test_a_policy_of_a_foreign_owner_is_left_unchanged_and_reported(world: World) -> None:
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "qwen-pods"}}
    body = {**policy, "spec": {"podSelector": {"matchLabels": {"tier": "gold"}}}}
    path = f"/apis/networking.k8s.io/v1/namespaces/{world.namespace}/networkpolicies"
    assert world.server.client.create(path, body).ok
    world.create(raw_spec("Aggregated"))
    await world.settle()
    assert (await world.find(NETWORK_POLICY, "qwen-pods"))["spec"]["podSelector"] == {"matchLabels": {"tier": "gold"}}
    stalled = (await world.conditions())["Stalled"]
    assert (stalled["status"], stalled["reason"]) == ("True", "NameTaken")
    assert "NetworkPolicy qwen-pods" in stalled["message"]


async def test_a_change_of_topology_removes_the_budgets_of_removed_stages(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    change(world, {**raw_spec("CoLocated"), "worker": None})
    await world.settle()
    assert await names(world, DISRUPTION_BUDGET) == ["qwen-frontend", "qwen-group"]


# Drains


class Pods:
    """The pods of a stage, and a kubelet for them."""

    def __init__(self, world: World, stage: str) -> None:
        self._world = world
        self._selector = f"epd.dev/deployment=qwen,app.kubernetes.io/component={stage}"
        self._path = f"/api/v1/namespaces/{world.namespace}/pods"
        self._budget = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets/qwen-{stage}"

    @property
    def _client(self) -> Client:
        return self._world.server.client

    async def names(self) -> list[str]:
        found = await self._world.cluster.list(POD, namespace=self._world.namespace, selector=self._selector)
        return sorted(p["metadata"]["name"] for p in found if not p["metadata"].get("deletionTimestamp"))

    def report(self, pod: str, *, ready: bool = True) -> None:
        """Report the pod as running. A pending pod can always be evicted."""
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
        answer = self._client.request("PATCH", f"{self._path}/{pod}/status", {"status": status}, content_type=MERGE)
        assert answer.ok, answer.message

    async def all_ready(self, count: int) -> list[str]:
        """Wait until the controllers have created the pods, and the budget has counted them as ready."""

        async def counted() -> bool:
            found = await self.names()
            for pod in found:
                self.report(pod)
            status = self.budget()
            return (len(found), status.get("currentHealthy"), status.get("expectedPods")) == (count, count, count)

        await eventually(counted, state=self.state)
        return await self.names()

    async def healthy(self, count: int) -> None:
        """Wait until the budget has counted that many pods as ready."""

        async def counted() -> bool:
            return bool(self.budget().get("currentHealthy") == count)

        await eventually(counted, state=self.state)

    def budget(self) -> dict[str, Any]:
        """The status of the stage's budget."""
        return dict(self._client.get(self._budget).body.get("status", {}))

    async def state(self) -> str:
        return f"{await self.names()}: {self.budget()}"

    def evict(self, pod: str) -> Answer:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        return self._client.request("POST", f"{self._path}/{pod}/eviction", body)


@pytest.mark.parametrize("topology", STAGE)
async def test_a_drain_evicts_one_of_four_pods_and_the_next_when_the_first_is_replaced(
    live_world: World, topology: str
) -> None:
    stage = STAGE[topology]
    live_world.create(raw_spec(topology, **{stage: {"pool": "gb200", "replicas": 4}}))
    await live_world.settle()
    pods = Pods(live_world, stage)
    first, second, *_ = await pods.all_ready(4)
    assert pods.evict(first).ok
    refusal = pods.evict(second)
    assert refusal.status == 429
    assert "disruption budget" in refusal.message
    await pods.all_ready(4)
    assert pods.evict(second).ok


async def test_the_only_pod_of_a_stage_can_be_evicted(live_world: World) -> None:
    live_world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 1}))
    await live_world.settle()
    pods = Pods(live_world, "worker")
    (only,) = await pods.all_ready(1)
    assert pods.evict(only).ok


async def test_a_pod_that_is_not_ready_can_be_evicted_when_the_budget_is_exhausted(live_world: World) -> None:
    live_world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 4}))
    await live_world.settle()
    pods = Pods(live_world, "worker")
    first, second, third, _ = await pods.all_ready(4)
    pods.report(first, ready=False)
    pods.report(second, ready=False)
    await pods.healthy(2)
    assert pods.evict(third).status == 429
    assert pods.evict(first).ok
    assert pods.evict(second).ok


async def test_a_budget_of_the_user_works_only_without_the_operators_budget(live_world: World) -> None:
    live_world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 2}))
    await live_world.settle()
    pods = Pods(live_world, "worker")
    first, _ = await pods.all_ready(2)
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "own"}}
    body |= {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app.kubernetes.io/component": "worker"}}}}
    path = f"/apis/policy/v1/namespaces/{live_world.namespace}/poddisruptionbudgets"
    assert live_world.server.client.create(path, body).ok
    refusal = pods.evict(first)
    assert refusal.status == 500
    assert "more than one PodDisruptionBudget" in refusal.message
    change(live_world, {"disruptionBudget": {"mode": "Unmanaged"}})
    await live_world.settle()

    async def evicted() -> bool:
        return pods.evict(first).ok

    await eventually(evicted, state=pods.state)
    assert first not in await pods.names()


# The role of the pods


async def reconcile_with(world: World, role: str, *, cluster: Cluster | None = None) -> tuple[Result, Counter[str]]:
    world.requests.clear()
    settings = Settings(worker_role=role)
    result = await Reconciler(cluster or world.cluster, settings=settings).reconcile(Key(world.namespace, "qwen"))
    return result, Counter(world.requests)


async def test_another_worker_role_is_bound_in_one_reconcile_and_then_nothing_is_written(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    before = await world.find(ROLE_BINDING, "qwen-discovery")
    assert before["roleRef"]["name"] == "epd-worker-discovery"
    _, requests = await reconcile_with(world, "team-discovery")
    after = await world.find(ROLE_BINDING, "qwen-discovery")
    assert after["roleRef"]["name"] == "team-discovery"
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]
    assert requests["DELETE RoleBinding"] == 1
    result, _ = await reconcile_with(world, "team-discovery")
    assert (result.outcome, result.written) == ("settled", ())
    assert await names(world, ROLE_BINDING) == ["qwen-discovery"]


def kubeconfig_of_operator(world: World, folder: Path) -> Path:
    """A kubeconfig of an account that may write all children, but may bind one role only."""
    client, rbac = world.server.client, "/apis/rbac.authorization.k8s.io/v1"
    accounts = f"/api/v1/namespaces/{world.namespace}/serviceaccounts"
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
    bind = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"]}
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": verbs},
        {**bind, "resourceNames": ["epd-worker-discovery"]},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": world.namespace}}
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": world.namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": world.namespace}
    binding = {**role, "kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": reference}
    assert client.create(f"{rbac}/clusterroles", {**role, "rules": rules}).ok
    assert client.create(f"{rbac}/clusterrolebindings", binding).ok
    assert client.create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "operator"}}).ok
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = client.create(f"{accounts}/operator/token", request)
    assert answer.ok, answer.message
    config = json.loads(world.server.kubeconfig.read_text())
    config["users"][0]["user"]["token"] = answer.body["status"]["token"]
    (folder / "kubeconfig").write_text(json.dumps(config))
    return folder / "kubeconfig"


async def test_a_role_that_the_operator_may_not_bind_is_reported_and_the_pods_keep_their_role(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["deletecollection"]}]
    powerful = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": rules}
    powerful["metadata"] = {"name": f"{world.namespace}-powerful"}
    assert world.server.client.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", powerful).ok
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig_of_operator(world, tmp_path)))
    world.create(raw_spec("Aggregated"))
    async with connect() as cluster:
        await reconcile_with(world, "epd-worker-discovery", cluster=cluster)
        before = await world.find(ROLE_BINDING, "qwen-discovery")
        result, _ = await reconcile_with(world, f"{world.namespace}-powerful", cluster=cluster)
    assert result.outcome == "refused"
    stalled = (await world.conditions())["Stalled"]
    assert stalled["reason"] == "ChildRefused"
    assert "the API server refused a request for RoleBinding qwen-discovery" in stalled["message"]
    assert (await world.find(ROLE_BINDING, "qwen-discovery"))["metadata"]["uid"] == before["metadata"]["uid"]

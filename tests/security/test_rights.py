"""The operator uses every right that the chart grants and needs no others: a real process, RBAC and the audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from epd_local.cluster import audit
from support import kubelet, rights, waiting
from support.apiserver import ApiServer
from support.client import Client
from support.helm import Helm, binary
from support.installed_operator import Operator, apply_rbac, running
from support.specs import raw_spec

ROOT = Path(__file__).parents[2]
SYSTEM = "epd-system"
TEAM = "team-a"
OTHER_ROLE = "other-discovery"
SCOPES = {"everywhere": (), "one namespace": ("--set", f"watchNamespaces={{{TEAM}}}")}
CHECKED_WITHIN_OTHERS = {
    "bind clusterroles.rbac.authorization.k8s.io epd-worker-discovery",
    "update epddeployments/finalizers.epd.dev",
}
"""Rights that the API server checks within another request, so that the log does not show them."""
USED_IN_OTHER_TESTS = {"create pods/eviction.core"}
"""No worker here can answer, so none answers wrongly: tests/api/test_wrong_workers.py."""


@dataclass(frozen=True, kw_only=True)
class LifeCycle:
    """Rights used during the life cycle of an object, from the audit log, and those that the chart granted."""

    granted: set[rights.Grant]
    used: set[rights.Use]


@dataclass(frozen=True, kw_only=True)
class Harness:
    """An object and its operator; the test acts as the user and as the nodes."""

    client: Client
    prometheus: kubelet.Prometheus
    operator: Operator
    log: Path

    def used(self) -> set[rights.Use]:
        """Requests of the operator until now."""
        user = rights.user_of(self.operator.namespace, self.operator.account)
        return rights.uses(audit.read(self.log), user=user)

    @property
    def path(self) -> str:
        return f"/apis/epd.dev/v1alpha1/namespaces/{TEAM}/epddeployments/qwen"

    def apply(self, spec: dict[str, Any]) -> None:
        body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "qwen"}, "spec": spec}
        answer = self.client.apply(self.path, body)
        assert answer.ok, answer.message

    def names(self, collection: str) -> set[str]:
        items = self.client.get(collection.format(TEAM)).body.get("items", ())
        return {item["metadata"]["name"] for item in items}

    def stages(self) -> set[str]:
        """Stages that have Deployments, of all revisions."""
        items = self.client.get(DEPLOYMENTS.format(TEAM)).body.get("items", ())
        return {item["metadata"]["labels"]["app.kubernetes.io/component"] for item in items}

    def replicas(self, stage: str) -> int:
        found = self.client.get(f"/apis/apps/v1/namespaces/{TEAM}/deployments/qwen-{stage}").body
        return int(found.get("spec", {}).get("replicas", -1))

    def ready(self) -> bool:
        found = self.client.get(self.path).body
        generation = found.get("metadata", {}).get("generation")
        conditions = found.get("status", {}).get("conditions", ())
        return any(
            (c["type"], c["status"], c["observedGeneration"]) == ("Ready", "True", generation) for c in conditions
        )

    def wait(
        self, what: str, holds: Callable[[], bool], *, act: Callable[[Client, str], None] = kubelet.run_pods
    ) -> None:
        """Wait until it holds, and act as the nodes in the meantime."""

        def check() -> None:
            self.operator.require_alive()
            act(self.client, TEAM)

        try:
            waiting.wait_for(what, holds, check=check)
        except TimeoutError as error:
            raise AssertionError(f"{error}; {self.client.get(self.path).body.get('status')}") from None


DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
RECORDS = "/apis/apps/v1/namespaces/{}/controllerrevisions"
SCALES = "/apis/epd.dev/v1alpha1/namespaces/{}/epdstagescales"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
LIST_EVENTS = f"list events.core {TEAM}/: 200"
BINDING = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{TEAM}/rolebindings/qwen-discovery"


def disaggregated() -> dict[str, Any]:
    """Encoders that the operator scales, and PD workers that an external client scales."""
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}, "scaleUp": {"stabilizationWindowSeconds": 0}}
    metrics = [{"type": "Requests", "targetPerReplica": 4}]
    internal = {"maxReplicas": 3, "metrics": metrics, "behavior": behavior}
    return raw_spec(
        "Disaggregated",
        encoder={"pool": "rtx", "replicas": 1, "autoscaling": internal},
        pd={"pool": "gb200", "replicas": 1, "autoscaling": {"mode": "External", "maxReplicas": 3}},
        scaling={"metricsSource": "Prometheus", "intervalSeconds": 5},
    )


def run_life_cycle(harness: Harness) -> None:
    """Creation, a start that takes long, scale-up, scale-down, another topology, unmanaged children."""
    harness.apply(disaggregated())
    harness.wait("Events are read", lambda: LIST_EVENTS in map(str, harness.used()), act=kubelet.hold_pods)
    harness.wait("ready", harness.ready)
    # Below the panic threshold, because a panic would keep the encoders for a minute.
    harness.prometheus.load = 6
    harness.wait("more encoders", lambda: harness.replicas("encoder") == 2)
    harness.prometheus.load = 1
    harness.wait("fewer encoders", lambda: harness.replicas("encoder") == 1)
    # No pod here can answer the request that a new revision gets with strategy BlueGreen.
    rollout = {"strategy": "Recreate", "revisionHistoryLimit": 0}
    unmanaged = {"networkPolicy": {"mode": "Unmanaged"}, "disruptionBudget": {"mode": "Unmanaged"}}
    harness.apply(raw_spec("Aggregated", rollout=rollout, **unmanaged))
    harness.wait("other stages", lambda: harness.stages() == {"frontend", "worker"})
    harness.wait("no record of the earlier spec", lambda: len(harness.names(RECORDS)) == 1)
    harness.wait("no scale objects", lambda: not harness.names(SCALES))
    harness.wait("no policies", lambda: not harness.names(POLICIES) and not harness.names(BUDGETS))


def change_role_and_delete(harness: Harness) -> None:
    """An installation with another role for the workers; then the object is deleted."""

    def bound() -> str:
        return str(harness.client.get(BINDING).body.get("roleRef", {}).get("name"))

    harness.wait("bound to the other role", lambda: bound() == OTHER_ROLE)
    assert harness.client.request("DELETE", harness.path).ok
    harness.wait("nothing is left", lambda: not harness.names(DEPLOYMENTS))


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(program=binary("helm"), major=3, home=tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    flags = ["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]
    folder = tmp_path_factory.mktemp("rights")
    with ApiServer(folder=folder, with_controllers=True, with_audit=True, api_flags=flags) as started:
        started.install_crds(ROOT / "crds")
        for name in (SYSTEM, TEAM):
            assert started.client.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok
        yield started


@pytest.fixture(scope="module", params=SCOPES)
def life_cycle(request: pytest.FixtureRequest, server: ApiServer, helm: Helm, tmp_path_factory) -> Iterator[LifeCycle]:
    """The life cycle of one object, with a restart of the operator in between."""
    release = f"epd-operator-{request.param_index}"
    chart = helm.template(*SCOPES[request.param], release=release)
    again = helm.template(*SCOPES[request.param], "--set", f"workerRole.name={OTHER_ROLE}", release=release)
    folder = tmp_path_factory.mktemp("operator")
    with kubelet.prometheus() as prometheus:
        arguments = [f"--prometheus-url={prometheus.url}"]
        apply_rbac(server, chart)
        with running(server, folder=folder / "1", chart=chart, arguments=arguments) as operator:
            run_life_cycle(_harness(server, prometheus=prometheus, operator=operator))
            granted = _granted(server, operator)
        apply_rbac(server, again)
        with running(server, folder=folder / "2", chart=again, arguments=arguments) as operator:
            change_role_and_delete(_harness(server, prometheus=prometheus, operator=operator))
    user = rights.user_of(operator.namespace, operator.account)
    yield LifeCycle(granted=granted, used=rights.uses(audit.read(server.audit_log), user=user))
    for kind in ("clusterroles", "clusterrolebindings"):
        server.client.request("DELETE", f"{rights.RBAC}/{kind}/{release}")


def _harness(server: ApiServer, *, prometheus: kubelet.Prometheus, operator: Operator) -> Harness:
    return Harness(client=server.client, prometheus=prometheus, operator=operator, log=server.audit_log)


def _granted(server: ApiServer, operator: Operator) -> set[rights.Grant]:
    """The grants as the API server stores them, not as the chart renders them."""
    found = []
    for plural, kind in (
        ("clusterroles", "ClusterRole"),
        ("clusterrolebindings", "ClusterRoleBinding"),
        ("roles", "Role"),
        ("rolebindings", "RoleBinding"),
    ):
        items = server.client.get(f"{rights.RBAC}/{plural}").body["items"]
        found += [{**item, "kind": kind} for item in items]
    return rights.grants(found, namespace=operator.namespace, account=operator.account)


def test_no_request_of_the_operator_was_refused(life_cycle: LifeCycle) -> None:
    assert life_cycle.used
    assert rights.refused(life_cycle.used) == []


def test_every_right_of_the_operator_was_used(life_cycle: LifeCycle) -> None:
    assert sorted(rights.unused(life_cycle.granted, life_cycle.used)) == sorted(
        CHECKED_WITHIN_OTHERS | USED_IN_OTHER_TESTS
    )

"""Rights that no role of the chart may grant, and the need for the two rights that the audit log does not show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import rights
from support.apiserver import ApiServer
from support.client import Client
from support.helm import Helm, binary
from support.installed_operator import apply_rbac, token_of

ROOT = Path(__file__).parents[2]
WORKER_ROLE = "epd-worker-discovery"
SCOPES = {
    "everywhere": (),
    "two namespaces": ("--set", "watchNamespaces={team-a,team-b}"),
    "two replicas": ("--set", "replicas=2"),
}
NODE_CHECK = {"list nodes.core", "list runtimeclasses.node.k8s.io"}
WRITES = {"create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate", "*"}


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(program=binary("helm"), major=3, home=tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="module", params=SCOPES)
def chart(request: pytest.FixtureRequest, helm: Helm) -> list[dict[str, Any]]:
    return helm.template(*SCOPES[request.param])


def roles(chart: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [o for o in chart if o["kind"] in ("Role", "ClusterRole")]


def all_grants(chart: list[dict[str, Any]]) -> set[rights.Grant]:
    return {g for role in roles(chart) for g in rights.of_rules(role["rules"], role=role["metadata"]["name"])}


def test_no_role_can_read_secrets_or_has_wildcards(chart: list[dict[str, Any]]) -> None:
    found = all_grants(chart)
    assert found
    assert {str(g) for g in found if g.resource in ("nodes", "runtimeclasses")} <= NODE_CHECK
    for grant in found:
        assert grant.resource.split("/")[0] not in ("secrets", "configmaps", "namespaces"), grant
        assert "*" not in (grant.verb, grant.group, grant.resource), grant
        assert grant.verb not in ("escalate", "impersonate", "deletecollection"), grant
        assert "/exec" not in grant.resource, grant
        assert "/token" not in grant.resource, grant
    assert not any("nonResourceURLs" in rule for role in roles(chart) for rule in role["rules"])


def test_the_operator_may_bind_only_the_role_of_the_workers(chart: list[dict[str, Any]]) -> None:
    bound = {(g.resource, g.name) for g in all_grants(chart) if g.verb == "bind"}
    assert bound == {("clusterroles", WORKER_ROLE)}


def test_no_cluster_scoped_resource_may_be_written(chart: list[dict[str, Any]], controllers: ApiServer) -> None:
    scoped = cluster_scoped(controllers.client)
    assert ("rbac.authorization.k8s.io", "clusterroles") in scoped
    written = {g for g in all_grants(chart) if g.verb in WRITES and (g.group, g.resource.split("/")[0]) in scoped}
    assert {str(g) for g in written} == {f"bind clusterroles.rbac.authorization.k8s.io {WORKER_ROLE}"}


def cluster_scoped(client: Client) -> set[tuple[str, str]]:
    """Group and name of all cluster-scoped resources that the server serves."""
    groups = [("", "/api/v1")]
    groups += [
        (group["name"], f"/apis/{group['preferredVersion']['groupVersion']}")
        for group in client.get("/apis").body["groups"]
    ]
    return {
        (name, resource["name"])
        for name, path in groups
        for resource in client.get(path).body["resources"]
        if not resource["namespaced"]
    }


def test_with_watch_namespaces_nothing_is_granted_outside_of_them(helm: Helm) -> None:
    chart = helm.template(*SCOPES["two namespaces"])
    assert [o["metadata"]["name"] for o in chart if o["kind"] == "ClusterRole"] == [WORKER_ROLE]
    assert not [o for o in chart if o["kind"] == "ClusterRoleBinding"]
    places = {o["metadata"]["namespace"] for o in chart if o["kind"] == "RoleBinding"}
    assert places == {"epd-system", "team-a", "team-b"}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("value", ["Auto", "Always", "Never"])
def test_nodes_may_be_listed_only_by_an_operator_that_compares_them(helm: Helm, scope: str, value: str) -> None:
    chart = helm.template(*SCOPES[scope], "--set", f"nodeCheck={value}")
    (deployment,) = [o for o in chart if o["kind"] == "Deployment"]
    checks = value == "Always" or (value == "Auto" and scope != "two namespaces")
    assert ("--check-nodes" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]) == checks
    granted = {str(g) for g in all_grants(chart) if g.resource in ("nodes", "runtimeclasses")}
    assert granted == (NODE_CHECK if checks else set())


def test_workers_have_the_rights_for_discovery_and_no_others(helm: Helm) -> None:
    (role,) = [r for r in roles(helm.template()) if r["metadata"]["name"] == WORKER_ROLE]
    found = {(g.resource, g.verb) for g in rights.of_rules(role["rules"], role=WORKER_ROLE)}
    records = {("dynamoworkermetadatas", verb) for verb in ("list", "watch", "create", "patch", "delete")}
    assert found == {("pods", "list"), ("pods", "watch")} | records


PROBE = "probe"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory, helm: Helm) -> Iterator[ApiServer]:
    """A server that checks rights on owner references as OpenShift does, with the chart's roles."""
    flags = ["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]
    with ApiServer(folder=tmp_path_factory.mktemp("strict"), with_controllers=True, api_flags=flags) as server:
        server.install_crds(ROOT / "crds")
        assert server.client.create("/api/v1/namespaces", {"metadata": {"name": "epd-system"}}).ok
        apply_rbac(server, helm.template())
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": PROBE}}
        assert server.client.create("/api/v1/namespaces/epd-system/serviceaccounts", body).ok
        yield server


ATTEMPTS: dict[str, tuple[str, dict[str, Any]]] = {
    "bind": (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        {
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": WORKER_ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": "default"}],
        },
    ),
    "epddeployments/finalizers": (
        "/api/v1/namespaces/default/services",
        {
            "kind": "Service",
            "spec": {"ports": [{"port": 80}]},
            "metadata": {
                "name": "probe",
                "ownerReferences": [
                    {
                        "apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "name": "qwen", "uid": "made-up",
                        "controller": True, "blockOwnerDeletion": True,
                    }
                ],
            },
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("right", ATTEMPTS)
def test_a_right_that_the_api_server_checks_within_another_request_is_needed(strict: ApiServer, right: str) -> None:
    path, body = ATTEMPTS[right]
    body = {"metadata": {"name": "probe"}, **body}
    role = strict.client.get(f"{rights.RBAC}/clusterroles/epd-operator").body
    fewer = [r for r in role["rules"] if right not in r["verbs"] and right not in r["resources"]]
    assert len(fewer) == len(role["rules"]) - 1
    made = {**role, "metadata": {"name": "probe"}, "rules": fewer}
    assert strict.client.apply(f"{rights.RBAC}/clusterroles/probe", made).ok
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "probe"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "probe"},
        "subjects": [{"kind": "ServiceAccount", "name": PROBE, "namespace": "epd-system"}],
    }  # fmt: skip
    assert strict.client.apply(f"{rights.RBAC}/clusterrolebindings/probe", binding).ok
    without = _as(strict, PROBE).create(path, body, dry_run=True)
    assert without.status == 403
    assert re.search("not currently held|cannot set blockOwnerDeletion", without.message), without.message
    with_it = _as(strict, "epd-operator").create(path, body, dry_run=True)
    assert with_it.ok, with_it.message


def _as(server: ApiServer, account: str) -> Client:
    token = token_of(server, namespace="epd-system", account=account)
    return Client(url=server.url, token=token, ca_file=server.client.ca_file)

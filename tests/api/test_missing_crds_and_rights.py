"""The operator before its CRDs are installed and its rights are granted, and when its CRDs are deleted."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.apiserver import CRD_PATH, ApiServer
from support.installed_operator import token_of
from support.replica import Replica
from support.specs import raw_spec

ROOT = Path(__file__).parents[2]
OBJECTS = "/apis/epd.dev/v1alpha1/namespaces/default/epddeployments"
WORKER = "/apis/apps/v1/namespaces/default/deployments/{}-worker"
CRD = f"{CRD_PATH}/epddeployments.epd.dev"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
BINDING = f"{RBAC}/clusterrolebindings"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    """A separate API server, because other tests need their CRDs."""
    with ApiServer(folder=tmp_path / "apiserver") as started:
        yield started


def create(server: ApiServer, name: str) -> None:
    body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": name}}
    answer = server.client.create(OBJECTS, body | {"spec": raw_spec("Aggregated")})
    assert answer.ok, answer.message


def assert_reconciles(server: ApiServer, replica: Replica, name: str) -> None:
    """Create an object and wait for its children, which are created long before the next resync."""
    create(server, name)
    replica.wait_for("children", lambda: server.client.get(WORKER.format(name)).ok)


def test_crds_that_are_installed_later_are_watched_without_a_restart(server: ApiServer, tmp_path: Path) -> None:
    with Replica(kubeconfig=server.kubeconfig, log=tmp_path / "operator.log") as replica:
        replica.wait_for("a log line", lambda: "epddeployments of epd.dev" in replica.log.read_text())
        assert replica.is_ready
        assert replica.is_alive
        server.install_crds(ROOT / "crds")
        assert_reconciles(server, replica, "one")


def test_the_operator_exits_when_its_crd_is_deleted_and_the_next_one_waits_for_the_crd(
    server: ApiServer, tmp_path: Path
) -> None:
    server.install_crds(ROOT / "crds")
    with Replica(kubeconfig=server.kubeconfig, log=tmp_path / "first.log") as first:
        first.wait_for("readiness", lambda: first.is_ready)
        assert_reconciles(server, first, "one")
        assert server.client.request("DELETE", CRD).ok
        server.wait_for("the CRD is gone", lambda: server.client.get(CRD).status == 404)
        assert first.exit_code() == 1
    with Replica(kubeconfig=server.kubeconfig, log=tmp_path / "second.log") as second:
        second.wait_for("a log line", lambda: "epddeployments of epd.dev" in second.log.read_text())
        server.install_crd(yaml.safe_load((ROOT / "crds" / "epd.dev_epddeployments.yaml").read_text()))
        assert_reconciles(server, second, "two")


def limited(server: ApiServer, folder: Path) -> Path:
    """A kubeconfig of a ServiceAccount that has no rights yet."""
    assert server.client.create(ACCOUNT, {"metadata": {"name": "operator"}}).ok
    config = json.loads(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token_of(server, namespace="default", account="operator")}
    (folder / "kubeconfig").write_text(json.dumps(config))
    return folder / "kubeconfig"


def grant(server: ApiServer, *, namespace: str | None = None) -> None:
    """Grant the ServiceAccount all rights, in one namespace or in all."""
    path = BINDING if namespace is None else f"{RBAC}/namespaces/{namespace}/rolebindings"
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding" if namespace is None else "RoleBinding",
        "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": "default"}],
    }
    answer = server.client.create(path, binding)
    assert answer.ok, answer.message


def test_rights_that_are_granted_later_are_used_without_a_restart(server: ApiServer, tmp_path: Path) -> None:
    server.install_crds(ROOT / "crds")
    with Replica(kubeconfig=limited(server, tmp_path), log=tmp_path / "operator.log") as replica:
        replica.wait_for("a log line", lambda: "forbidden" in replica.log.read_text())
        assert replica.is_alive
        grant(server)
        assert_reconciles(server, replica, "one")


def test_a_namespace_without_rights_does_not_block_others_and_the_operator_exits_when_they_are_granted(
    server: ApiServer, tmp_path: Path
) -> None:
    server.install_crds(ROOT / "crds")
    assert server.client.create("/api/v1/namespaces", {"metadata": {"name": "closed"}}).ok
    kubeconfig = limited(server, tmp_path)
    grant(server, namespace="default")
    with Replica(
        "--namespace=closed", "--namespace=default", kubeconfig=kubeconfig, log=tmp_path / "operator.log"
    ) as replica:
        replica.wait_for("a log line", lambda: "cannot watch yet" in replica.log.read_text())
        assert_reconciles(server, replica, "one")
        grant(server, namespace="closed")
        assert replica.exit_code() == 1


def test_an_operator_with_an_older_role_reconciles_all_kinds_that_it_may_read(
    server: ApiServer, tmp_path: Path
) -> None:
    server.install_crds(ROOT / "crds")
    kubeconfig = limited(server, tmp_path)
    role = f"{RBAC}/clusterroles"
    groups = ["", "apps", "epd.dev", "events.k8s.io", "rbac.authorization.k8s.io"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
    assert server.client.create(role, {"metadata": {"name": "of-an-earlier-version"}, "rules": rules}).ok
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "of-an-earlier-version"}
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": "default"}
    assert server.client.create(
        BINDING, {"metadata": {"name": "earlier"}, "roleRef": reference, "subjects": [subject]}
    ).ok
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    with Replica(kubeconfig=kubeconfig, log=tmp_path / "operator.log") as replica:
        assert_reconciles(server, replica, "one")
        replica.wait_for("a condition", lambda: stalled(server, "one")[:1] == ["ChildRefused"])
        assert "cannot list resource" in stalled(server, "one")[1]
        assert server.client.request("DELETE", WORKER.format("one")).ok
        replica.wait_for("the watches", lambda: server.client.get(WORKER.format("one")).ok)
        grant(server)
        assert replica.exit_code() == 1
    with Replica(kubeconfig=kubeconfig, log=tmp_path / "next.log") as replica:
        replica.wait_for("what was missing", lambda: server.client.get(f"{budgets}/one-worker").ok)
        replica.wait_for("no condition any more", lambda: stalled(server, "one")[:1] == ["Settled"])


def test_an_api_server_that_does_not_serve_an_optional_kind_gets_all_other_children(tmp_path: Path) -> None:
    with ApiServer(folder=tmp_path / "apiserver", api_flags=["--runtime-config=policy/v1=false"]) as server:
        server.install_crds(ROOT / "crds")
        with Replica(kubeconfig=server.kubeconfig, log=tmp_path / "operator.log") as replica:
            assert_reconciles(server, replica, "one")
            replica.wait_for("a condition", lambda: stalled(server, "one")[:1] == ["ChildRefused"])
            assert "a request for PodDisruptionBudget one-" in stalled(server, "one")[1]


def test_many_namespaces_are_watched_with_a_low_soft_limit_of_open_files(server: ApiServer, tmp_path: Path) -> None:
    server.install_crds(ROOT / "crds")
    names = [f"team-{number}" for number in range(12)]
    for name in names:
        assert server.client.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        flags = [f"--namespace={name}" for name in ("default", *names)]
        replica = Replica(*flags, kubeconfig=server.kubeconfig, log=tmp_path / "operator.log")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with replica:
        files = Path(f"/proc/{replica.process.pid}/fd")
        replica.wait_for("all watches", lambda: len(list(files.iterdir())) > 9 * len(flags))
        assert_reconciles(server, replica, "one")


def stalled(server: ApiServer, name: str) -> list[str]:
    """Reason and message of the condition Stalled, if there is one."""
    found = server.client.get(f"{OBJECTS}/{name}").body.get("status", {}).get("conditions", [])
    return [word for one in found if one["type"] == "Stalled" for word in (one["reason"], one["message"])]

"""Consecutive and parallel releases: upgrade from the last version, rollback, several releases, few rights."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epd_local.demo import installation
from support.accounts import Account
from support.apiserver import CRD_PATH
from support.charts import CRD_FILES, DYNAMO, EPD, PREVIOUS, Site, columns, crd, remove_cluster_scoped, with_column
from support.helm import Helm, HelmError, documents
from support.installed_operator import running
from support.operated import PRIMARIES
from support.specs import raw_spec

RELEASE = "epd-operator"
MERGE = "application/merge-patch+json"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings"


def watching(*namespaces: str) -> list[str]:
    return ["--set", f"watchNamespaces={{{','.join(namespaces)}}}"]


def manifest(helm: Helm, release: str, *, namespace: str) -> list[dict[str, Any]]:
    """The objects of the last revision, as Helm recorded them."""
    text = helm.run("get", "manifest", release, "-n", namespace)
    return documents(text)


@pytest.fixture
def old_crds(site: Site) -> list[str]:
    """CRDs as installed for version 0.1.0: by kubectl with server-side apply, before Helm, with one column fewer."""
    for name in CRD_FILES:
        old = crd(name)
        old["spec"]["versions"][0]["additionalPrinterColumns"].pop()
        answer = site.client.apply(f"{CRD_PATH}/{name}", with_column(old, "Old"), manager="kubectl")
        assert answer.ok, answer.message
    return list(CRD_FILES)


# Upgrade from 0.1.0


@pytest.mark.parametrize("namespaced", [False, True], ids=["everywhere", "namespaced"])
def test_the_last_version_can_be_upgraded_and_rolled_back_to(
    helm: Helm, site: Site, old_crds: list[str], namespaced: bool
) -> None:
    scope = watching(*site.teams) if namespaced else []
    helm.install(RELEASE, *scope, namespace=site.system, chart=PREVIOUS)
    path = f"/apis/apps/v1/namespaces/{site.system}/deployments/{RELEASE}"
    before = site.client.get(path).body
    with pytest.raises(HelmError, match="missing properties 'replicas'"):
        helm.upgrade(RELEASE, "--reuse-values", namespace=site.system)  # and without the defaults of new values
    helm.upgrade(RELEASE, "--reset-then-reuse-values", namespace=site.system)
    after = site.client.get(path).body
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["strategy"] == {"type": "Recreate"}, "the old pod takes no Lease, so it must end first"
    assert all("Old" in columns(site.live(name)) for name in old_crds), "CRDs of other owners are left unchanged"
    assert account_of(helm, site).may("create", "deployments.apps", namespace=site.teams[1])
    helm.run("rollback", RELEASE, "1", "-n", site.system)
    assert site.client.get(path).body["spec"]["strategy"] == {"type": "Recreate"}
    assert account_of(helm, site).may("create", "deployments.apps", namespace=site.teams[1])
    assert all(site.crd(name) for name in old_crds)


def test_the_crds_of_the_last_version_are_taken_over_with_the_two_flags_of_the_guide(
    helm: Helm, site: Site, old_crds: list[str]
) -> None:
    helm.install(RELEASE, namespace=site.system, chart=PREVIOUS)
    path = f"/apis/apps/v1/namespaces/{site.system}/deployments/{RELEASE}"
    scale = f"{path}/scale?fieldManager=kubectl"
    stopped = site.client.request("PATCH", scale, {"spec": {"replicas": 0}}, content_type=MERGE)
    assert stopped.ok, stopped.message
    force = ["--force-conflicts"] if helm.major == 4 else []
    flags = ["--reset-values", "--take-ownership", "--set", "crds.install=Always", *force]
    helm.upgrade(RELEASE, *flags, namespace=site.system)
    assert site.client.get(path).body["spec"]["replicas"] == 1
    assert columns(site.live(EPD)) == columns(crd(EPD))
    assert "Old" in columns(site.live(DYNAMO))
    helm.run("rollback", RELEASE, "1", "-n", site.system)
    assert all(site.crd(name) for name in old_crds)


def test_the_local_cluster_gets_the_charts_crds_whether_it_is_new_or_of_an_earlier_version(
    both: tuple[Helm, Helm], site: Site, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    helm, _ = both
    monkeypatch.setattr(installation, "SYSTEM_NAMESPACE", site.system)
    arguments = [
        str(argument) for argument in installation.install_command(helm.program, image=Path("image-1.tar"))[1:]
    ]
    waiting_flags = {"--wait", "--timeout", "3m"}
    command = [argument for argument in arguments if argument not in waiting_flags]
    helm.run(*command)
    assert columns(site.live(EPD)) == columns(crd(EPD))
    helm.run("uninstall", RELEASE, "-n", site.system)
    remove_cluster_scoped(site.server)
    old = request.getfixturevalue("old_crds")
    helm.install(RELEASE, namespace=site.system, chart=PREVIOUS)
    helm.run(*command)
    assert not any("Old" in columns(site.live(name)) for name in old)


def test_election_can_be_switched_off_and_on_and_pods_with_and_without_it_never_run_together(
    helm: Helm, site: Site
) -> None:
    path = f"/apis/apps/v1/namespaces/{site.system}/deployments/{RELEASE}"
    helm.install(RELEASE, namespace=site.system)
    helm.upgrade(RELEASE, "--set", "leaderElection.enabled=false", namespace=site.system)
    assert site.client.get(path).body["spec"]["strategy"] == {"type": "Recreate"}
    for strategy in (
        {"type": "Recreate"},
        {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
    ):
        helm.upgrade(RELEASE, "--set", "replicas=2,leaderElection.enabled=true", namespace=site.system)
        assert site.client.get(path).body["spec"]["strategy"] == strategy


def test_a_change_of_scope_removes_the_old_rights(helm: Helm, site: Site) -> None:
    helm.install(RELEASE, namespace=site.system)
    account = account_of(helm, site)
    assert account.may("list", "pods")
    helm.upgrade(RELEASE, *watching(site.teams[0]), namespace=site.system)
    assert [account.may("list", "pods", namespace=name) for name in ("", *site.teams)] == [False, True, False]
    helm.upgrade(RELEASE, "--reset-values", namespace=site.system)
    assert account.may("list", "pods")


# Rights


def account_of(helm: Helm, site: Site, release: str = RELEASE) -> Account:
    """The ServiceAccount that the operator of a release runs as."""
    (found,) = [o for o in manifest(helm, release, namespace=site.system) if o["kind"] == "ServiceAccount"]
    return Account(server=site.server, namespace=site.system, name=found["metadata"]["name"])


def test_rights_are_limited_to_the_watched_namespaces_and_the_lease_to_the_operators_namespace(
    helm: Helm, site: Site
) -> None:
    helm.install(RELEASE, *watching(site.teams[0]), namespace=site.system)
    account = account_of(helm, site)
    mine, other = site.teams
    asked = ("epddeployments.epd.dev", "deployments.apps", "rolebindings.rbac.authorization.k8s.io", "pods")
    assert all(account.may("watch", resource, namespace=mine) for resource in asked)
    places = (other, site.system, "")
    assert not any(account.may("watch", resource, namespace=place) for resource in asked for place in places)
    lease = "leases.coordination.k8s.io"
    assert account.may("update", lease, namespace=site.system, name=RELEASE)
    assert not account.may("update", lease, namespace=site.system, name="other")
    assert not account.may("create", lease, namespace=mine)
    binding = "clusterroles.rbac.authorization.k8s.io"
    assert account.may("bind", binding, namespace=mine, name="epd-worker-discovery")
    assert not account.may("bind", binding, namespace=mine, name="cluster-admin")
    assert not account.may("get", "secrets", namespace=mine)


@pytest.fixture
def installer(site: Site) -> Account:
    """A user with all rights in two namespaces and none elsewhere."""
    account = {"metadata": {"name": "installer"}}
    assert site.client.create(f"/api/v1/namespaces/{site.system}/serviceaccounts", account).ok
    role = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], "metadata": {"name": "everything"}}
    subject = {"kind": "ServiceAccount", "name": "installer", "namespace": site.system}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "everything"}
    for namespace in (site.system, site.teams[0]):
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
        assert site.client.create(f"{path}/roles", role).ok
        body = {"metadata": {"name": "everything"}, "roleRef": reference, "subjects": [subject]}
        assert site.client.create(f"{path}/rolebindings", body).ok
    return Account(server=site.server, namespace=site.system, name="installer")


def test_a_user_without_cluster_wide_rights_can_install_the_chart_for_a_namespace(
    helm: Helm, site: Site, installer: Account, tmp_path: Path
) -> None:
    limited = replace(helm, kubeconfig=installer.kubeconfig(tmp_path / "kubeconfig"))
    with pytest.raises(HelmError, match=r"is forbidden: .* at the cluster scope"):
        limited.install(RELEASE, *watching(site.teams[0]), namespace=site.system)
    apart = "crds.install=Never,crds.dynamo=Never,workerRole.create=false,admission.enabled=false"
    limited.install(RELEASE, *watching(site.teams[0]), "--set", apart, namespace=site.system)
    limited.upgrade(RELEASE, *watching(site.teams[0]), "--set", f"{apart},logLevel=DEBUG", namespace=site.system)
    limited.run("uninstall", RELEASE, "-n", site.system)


# Several releases


@pytest.fixture
def two_releases(helm: Helm, site: Site) -> list[str]:
    """One for each team; the second uses the cluster-scoped objects of the first."""
    one, other = site.teams
    helm.install("epd-operator-a", *watching(one), namespace=site.system)
    notes = helm.install("epd-operator-b", *watching(other), "--set", "admission.enabled=false", namespace=site.system)
    assert EPD in notes.split("CRDs that this release does not manage:")[1]
    assert "epd-worker-discovery already exists and belongs to another owner" in notes
    return ["epd-operator-a", "epd-operator-b"]


def test_a_release_that_would_watch_namespaces_of_another_release_is_refused(helm: Helm, site: Site) -> None:
    one, other = site.teams
    helm.install("first", *watching(one), namespace=site.system)
    with pytest.raises(
        HelmError, match=f"namespace {one} is already watched by release first in namespace {site.system}"
    ):
        helm.install("second", *watching(other, one), "--set", "admission.enabled=false", namespace=other)
    helm.upgrade("first", *watching(one, site.system), namespace=site.system)
    helm.install("second", *watching(other), "--set", "admission.enabled=false", namespace=site.system)
    helm.upgrade("first", *watching(one, site.system), namespace=site.system)
    helm.run("uninstall", "first", "second", "-n", site.system)
    helm.install("first", namespace=site.system)
    helm.upgrade("first", namespace=site.system)
    with pytest.raises(
        HelmError, match=f"every namespace is already watched by release first in namespace {site.system}"
    ):
        helm.install("second", "--set", "admission.enabled=false", namespace=other)


def test_two_releases_each_reconcile_only_their_own_namespace(
    helm: Helm, site: Site, two_releases: list[str], tmp_path: Path
) -> None:
    site.server.wait_for("kind served", lambda: site.client.get(PRIMARIES.format(site.teams[0])).ok)
    for namespace in site.teams:
        body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "qwen"}}
        assert site.client.create(PRIMARIES.format(namespace), {**body, "spec": raw_spec("Aggregated")}).ok
    with ExitStack() as stack:
        for release in two_releases:
            objects = manifest(helm, release, namespace=site.system)
            stack.enter_context(running(site.server, folder=tmp_path / release, chart=objects))
        for namespace in site.teams:
            bound = f"{ROLE_BINDINGS.format(namespace)}/qwen-discovery"
            site.server.wait_for(f"children in {namespace}", lambda path=bound: site.client.get(path).ok)
    for release, namespace, foreign in zip(two_releases, site.teams, reversed(site.teams), strict=True):
        log = (tmp_path / release / "operator.log").read_text()
        assert namespace in log
        assert foreign not in log


def test_uninstalling_the_first_of_two_releases_does_not_affect_the_second(
    helm: Helm, site: Site, two_releases: list[str]
) -> None:
    first, second = two_releases
    helm.run("uninstall", first, "-n", site.system)
    assert site.client.get(f"{CLUSTER_ROLES}/epd-worker-discovery").ok
    assert all(site.crd(name) for name in CRD_FILES)
    assert account_of(helm, site, second).may("watch", "epddeployments.epd.dev", namespace=site.teams[1])
    helm.upgrade(second, "--reuse-values", namespace=site.system)
    assert EPD not in helm.install(first, *watching(site.teams[0]), namespace=site.system)


def test_a_second_release_with_its_own_worker_role_does_not_conflict_with_the_first(helm: Helm, site: Site) -> None:
    one, other = site.teams
    helm.install("epd-operator-a", *watching(one), namespace=site.system)
    own = "workerRole.name=other-discovery,admission.enabled=false"
    helm.install("epd-operator-b", *watching(other), "--set", own, namespace=site.system)
    account = account_of(helm, site, "epd-operator-b")
    roles = "clusterroles.rbac.authorization.k8s.io"
    allowed = [account.may("bind", roles, namespace=other, name=n) for n in ("other-discovery", "epd-worker-discovery")]
    assert allowed == [True, False]


def test_releases_of_one_name_in_two_namespaces_do_not_conflict(helm: Helm, site: Site) -> None:
    one, other = site.teams
    helm.install(RELEASE, *watching(one), namespace=site.system)
    helm.install(RELEASE, *watching(other), "--set", "admission.enabled=false", namespace=other)
    places = [site.client.get(f"{ROLE_BINDINGS.format(team)}/{RELEASE}-watch").body for team in site.teams]
    assert [binding["subjects"][0]["namespace"] for binding in places] == [site.system, other]

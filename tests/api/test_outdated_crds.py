"""An operator that is newer than the CRDs reports it, without rights on CRDs, and writes nothing more."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_operator.cluster.client import connect
from epd_operator.objects.identity import Key
from epd_operator.objects.kinds import EPD_DEPLOYMENT
from epd_operator.reconcile.crd_check import CrdCheck
from epd_operator.reconcile.reconciler import Reconciler
from support.apiserver import CRD_PATH, ApiServer
from support.fixtures import ROOT
from support.installed_operator import token_of
from support.operated import READS, new_world
from support.replica import Replica
from support.specs import raw_spec
from support.waiting import eventually

CRD = yaml.safe_load((ROOT / "crds" / "epd.dev_epddeployments.yaml").read_text())
SCALE_CRD = yaml.safe_load((ROOT / "crds" / "epd.dev_epdstagescales.yaml").read_text())
NAME = "epddeployments.epd.dev"
OBJECT = "/apis/epd.dev/v1alpha1/namespaces/default/epddeployments"
LACKS = "CRD epddeployments.epd.dev lacks spec.disruptionBudget, spec.networkPolicy."
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def old_crd() -> dict[str, Any]:
    """The CRD without two fields that version 0.1.0 did not have."""
    old = copy.deepcopy(CRD)
    spec = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del spec["networkPolicy"], spec["disruptionBudget"]
    return old


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    """An API server with the old CRD, as `kubectl` applied it."""
    with ApiServer(folder=tmp_path / "apiserver") as started:
        for crd in (old_crd(), SCALE_CRD):
            started.install_crd(crd)
        path = f"/openapi/v3/apis/{EPD_DEPLOYMENT.api_version}"
        started.wait_for("schemas published", lambda: "EPDStageScale" in json.dumps(started.client.get(path).body))
        yield started


def account(server: ApiServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig of a ServiceAccount without any rights of its own."""
    assert server.client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "operator"}}).ok
    config = json.loads(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token_of(server, namespace="default", account="operator")}
    (folder / "kubeconfig").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return folder / "kubeconfig"


async def test_objects_get_the_condition_until_the_crd_is_upgraded_and_nothing_is_written_at_rest(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Mapping[str, int]] = []
    async with new_world(server, monkeypatch) as world:
        check = CrdCheck(world.cluster, on_result=results.append)
        reconciler = Reconciler(world.cluster, crd_problem=check.problem)

        async def settle() -> dict[str, Any]:
            for _ in range(20):
                world.requests.clear()
                await reconciler.reconcile(Key(world.namespace, "qwen"))
                if not any(not request.startswith(READS) for request in world.requests):
                    return (await world.conditions()).get("CRDOutdated", {})
            raise AssertionError(f"still writing: {world.requests}")

        world.create(raw_spec("Aggregated"))
        assert await settle() == {}
        assert await check.check()
        assert not await check.check()
        outdated = await settle()
        assert (outdated["status"], outdated["reason"]) == ("True", "FieldsMissing")
        assert LACKS in outdated["message"]
        assert results[-1] == {NAME: 2, "epdstagescales.epd.dev": 0}

        assert server.client.apply(f"{CRD_PATH}/{NAME}", CRD).ok
        # The API server publishes the new schema after it has accepted the CRD.
        await eventually(check.check, state=world.conditions)
        assert results[-1] == {NAME: 0, "epdstagescales.epd.dev": 0}
        assert await settle() == {}


async def test_no_right_is_needed(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account(server, tmp_path, monkeypatch)
    async with connect() as cluster:
        check = CrdCheck(cluster, on_result=lambda _: None)
        await check.check()
        assert LACKS in check.problem()


async def test_nothing_is_claimed_if_the_schema_may_not_be_read(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account(server, tmp_path, monkeypatch)
    results: list[Mapping[str, int]] = []
    async with connect() as cluster:
        check = CrdCheck(cluster, on_result=results.append)
        await check.check()
        assert check.problem()
        assert server.client.request("DELETE", f"{RBAC}/clusterrolebindings/system:discovery").ok
        assert await check.check()
        assert check.problem() == ""
        assert results[-1] == {}


def test_the_operator_of_one_namespace_reports_it_in_its_log_and_in_the_object(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = account(server, tmp_path, monkeypatch)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": "default"}],
    }
    assert server.client.create(f"{RBAC}/namespaces/default/rolebindings", binding).ok
    body = {"apiVersion": EPD_DEPLOYMENT.api_version, "kind": EPD_DEPLOYMENT.kind, "metadata": {"name": "qwen"}}
    assert server.client.create(OBJECT, {**body, "spec": raw_spec("Aggregated")}).ok

    def reported() -> bool:
        status = server.client.get(f"{OBJECT}/qwen").body.get("status", {})
        return any(c["type"] == "CRDOutdated" and LACKS in c["message"] for c in status.get("conditions", ()))

    log = tmp_path / "operator.log"
    with Replica("--namespace=default", kubeconfig=kubeconfig, log=log) as replica:
        replica.wait_for("the condition", reported)
        assert LACKS in log.read_text()

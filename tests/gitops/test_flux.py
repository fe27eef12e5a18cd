"""What the real kustomize-controller of Flux does with the examples: what it deletes, and which commits wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.apiserver import ApiServer
from support.fixtures import ROOT
from support.flux import CLUSTER, CLUSTER_FILES, SYSTEM, Files, Flux, example_repository, flux

NAMESPACES = "/api/v1/namespaces"
SERVING = f"{NAMESPACES}/serving"
CLAIM = f"{SERVING}/persistentvolumeclaims/models"
OBJECT = "/apis/epd.dev/v1alpha1/namespaces/serving/epddeployments/qwen-vl"
RELEASE = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/epd-system/helmreleases/epd-operator"
OVERLAY = "examples/gitops/kustomize/overlays/production/kustomization.yaml"
OPERATOR = "examples/gitops/flux/operator"
ANNOTATION = "kustomize.toolkit.fluxcd.io/prune"
READY = {
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "AllStagesReady",
            "message": "all stages are ready",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Flux]:
    """A cluster with the CRDs and Flux, and nothing in its repository yet."""
    with ApiServer(folder=tmp_path / "cluster", with_controllers=True) as server:
        server.install_crds(ROOT / "crds")
        with flux(server, folder=tmp_path / "cluster") as running:
            yield running


def install(cluster: Flux, files: Files) -> None:
    """Push the repository and wait until everything in it is healthy; a user adds the claim with the model."""
    revision = cluster.push(files)
    cluster.server.wait_for("EPDDeployment applied", lambda: cluster.find(OBJECT) is not None)
    cluster.patch_status("epddeployments", "qwen-vl", namespace="serving", status=READY)
    for name in ("epd-operator", "serving", SYSTEM):
        cluster.wait_applied(name, revision)
    spec = {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Ti"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "models"}, "spec": spec}
    assert cluster.server.client.create(f"{SERVING}/persistentvolumeclaims", claim).ok


def is_kept(cluster: Flux, path: str) -> bool:
    """Whether the object exists and is not being deleted."""
    found = cluster.find(path)
    return found is not None and "deletionTimestamp" not in found["metadata"]


def without(files: Files, *names: str) -> Files:
    """The repository without some files of the cluster's folder."""
    removed = {f"{CLUSTER}/{name}" for name in names}
    assert removed <= files.keys()
    return {path: text for path, text in files.items() if path not in removed}


def test_the_operator_can_leave_git_and_everything_of_its_users_stays(cluster: Flux) -> None:
    files = example_repository()
    install(cluster, files)
    cluster.push(without(files, "operator.yaml"))
    cluster.wait_gone("epd-operator")
    assert not is_kept(cluster, RELEASE)
    kept = (SERVING, CLAIM, OBJECT, f"{NAMESPACES}/epd-system")
    assert {path: is_kept(cluster, path) for path in kept} == dict.fromkeys(kept, True)


def test_all_files_can_leave_git_and_the_objects_stay(cluster: Flux) -> None:
    files = example_repository()
    install(cluster, files)
    revision = cluster.push(without(files, *CLUSTER_FILES) | {f"{CLUSTER}/kustomization.yaml": yaml.safe_dump({})})
    cluster.wait_applied(SYSTEM, revision)
    for name in ("epd-operator", "serving"):
        cluster.wait_gone(name)
    kept = (SERVING, CLAIM, OBJECT, f"{NAMESPACES}/epd-system")
    assert {path: is_kept(cluster, path) for path in kept} == dict.fromkeys(kept, True)


def test_an_object_that_leaves_git_is_deleted(cluster: Flux) -> None:
    files = example_repository()
    install(cluster, files)
    revision = cluster.push(files | {OVERLAY: yaml.safe_dump({"kind": "Kustomization", "resources": []})})
    cluster.wait_applied("serving", revision)
    assert not is_kept(cluster, OBJECT)
    assert is_kept(cluster, CLAIM)


def test_without_the_annotation_flux_would_delete_the_namespace(cluster: Flux) -> None:
    """The reason for the annotation; and a check that these tests would see a deletion."""
    files = example_repository()
    namespace: dict[str, Any] = yaml.safe_load(files[f"{CLUSTER}/serving-namespace.yaml"])
    del namespace["metadata"]["annotations"]
    install(cluster, files | {f"{CLUSTER}/serving-namespace.yaml": yaml.safe_dump(namespace)})
    revision = cluster.push(without(files, "serving-namespace.yaml"))
    cluster.wait_applied(SYSTEM, revision)
    assert not is_kept(cluster, SERVING)


def test_the_namespace_moves_out_of_the_operators_folder_in_two_commits(cluster: Flux) -> None:
    """From the layout of version 0.2.0, in which the namespace is deleted together with the operator."""
    files = example_repository()
    annotated = files[f"{CLUSTER}/serving-namespace.yaml"]
    plain: dict[str, Any] = yaml.safe_load(annotated)
    del plain["metadata"]["annotations"]
    names = {"resources": ["namespace.yaml", "release.yaml", "serving-namespace.yaml"]}
    old = without(files, "serving-namespace.yaml") | {
        f"{OPERATOR}/kustomization.yaml": yaml.safe_dump({"kind": "Kustomization", **names}),
        f"{OPERATOR}/serving-namespace.yaml": yaml.safe_dump(plain),
    }
    install(cluster, old)
    uid = (cluster.find(SERVING) or {})["metadata"]["uid"]
    for step in (old | {f"{OPERATOR}/serving-namespace.yaml": annotated}, files):
        revision = cluster.push(step)
        for name in ("epd-operator", "serving", SYSTEM):
            cluster.wait_applied(name, revision)
        found = cluster.find(SERVING) or {}
        assert found["metadata"]["annotations"][ANNOTATION] == "disabled"
        assert found["metadata"]["uid"] == uid
        assert is_kept(cluster, SERVING)


def test_a_commit_does_not_wait_for_the_health_check_of_the_one_before(cluster: Flux) -> None:
    """No object becomes ready here, and the health check waits for 70 minutes."""
    files = example_repository()
    cluster.wait_attempted("serving", cluster.push(files))
    cluster.server.wait_for("EPDDeployment applied", lambda: cluster.find(OBJECT) is not None)
    base = "examples/gitops/kustomize/base/kustomization.yaml"
    assert "newTag: 0.2.0" in files[base]
    cluster.wait_attempted(
        "serving", cluster.push(files | {base: files[base].replace("newTag: 0.2.0", "newTag: 0.2.1")})
    )

    def image() -> str:
        return str((cluster.find(OBJECT) or {})["spec"]["runtime"]["image"])

    cluster.server.wait_for("the next commit applied", lambda: image().endswith(":0.2.1"))


def test_a_failed_upgrade_of_the_operator_does_not_stop_changes_of_the_objects(cluster: Flux) -> None:
    files = example_repository()
    install(cluster, files)
    failed = {"type": "Stalled", "status": "True", "reason": "UpgradeFailed", "message": "no such image"}
    cluster.patch_status("helmreleases", "epd-operator", namespace="epd-system", status={"conditions": [failed]})
    name = f"{OPERATOR}/release.yaml"
    revision = cluster.push(files | {name: files[name].replace("replicas: 2", "replicas: 3")})
    cluster.wait_applied("serving", revision)
    cluster.wait_attempted("epd-operator", revision)
    status = (cluster.kustomization("epd-operator") or {})["status"]
    assert status["lastAppliedRevision"] != revision

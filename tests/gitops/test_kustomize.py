"""The repository layout renders, each overlay has its topology, and a patch of one pool keeps the others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.gitops import EXAMPLES
from support.kubectl import Kubectl

LAYOUT = EXAMPLES / "kustomize"
STAGES = ("worker", "group", "encoder", "pd")


def render(folder: Path) -> dict[str, Any]:
    """The one object that a folder renders."""
    (document,) = yaml.safe_load_all(Kubectl().get("kustomize", folder))
    rendered: dict[str, Any] = document
    return rendered


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """A copy of the layout, to change."""
    return Path(shutil.copytree(LAYOUT, tmp_path / "kustomize"))


@pytest.mark.parametrize(
    ("folder", "namespace", "topology", "stages"),
    [
        ("base", None, "CoLocated", {"group"}),
        ("overlays/staging", "serving-staging", "CoLocated", {"group"}),
        ("overlays/production", "serving", "Disaggregated", {"encoder", "pd"}),
        ("overlays/production-rdma", "serving", "Disaggregated", {"encoder", "pd"}),
    ],
)
def test_each_overlay_has_its_namespace_and_topology(
    folder: str, namespace: str | None, topology: str, stages: set[str]
) -> None:
    rendered = render(LAYOUT / folder)
    assert rendered["metadata"].get("namespace") == namespace
    assert rendered["spec"]["topology"] == topology
    assert {stage for stage in STAGES if stage in rendered["spec"]} == stages


def test_every_folder_of_the_layout_is_tested() -> None:
    folders = {str(path.parent.relative_to(LAYOUT)) for path in LAYOUT.rglob("kustomization.yaml")}
    assert folders == {"base", "overlays/staging", "overlays/production", "overlays/production-rdma"}


def test_a_json_patch_of_one_pool_keeps_the_others_and_the_rest_of_this_one() -> None:
    before = {pool["name"]: pool for pool in render(LAYOUT / "overlays" / "production")["spec"]["pools"]}
    after = {pool["name"]: pool for pool in render(LAYOUT / "overlays" / "production-rdma")["spec"]["pools"]}
    added = {"key": "example.com/gb200", "operator": "Exists", "effect": "NoSchedule"}
    assert after == {**before, "gb200": {**before["gb200"], "tolerations": [*before["gb200"]["tolerations"], added]}}


def test_a_merge_patch_of_one_pool_would_replace_the_list(layout: Path) -> None:
    """The reason for JSON patches of pools: Kustomize does not know the keys of the lists of a CRD."""
    patch = {"spec": {"pools": [{"name": "gb200", "gpu": {"memory": "192Gi"}}]}}
    document = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "qwen-vl"}, **patch}
    (layout / "overlays" / "production-rdma" / "rdma.yaml").write_text(yaml.safe_dump(document))
    assert render(layout / "overlays" / "production-rdma")["spec"]["pools"] == patch["spec"]["pools"]


def test_a_json_patch_fails_when_the_list_was_reordered(layout: Path) -> None:
    topology = layout / "overlays" / "production" / "topology.yaml"
    document = yaml.safe_load(topology.read_text())
    document["spec"]["pools"].reverse()
    topology.write_text(yaml.safe_dump(document))
    done = Kubectl().run("kustomize", layout / "overlays" / "production-rdma")
    assert done.code != 0
    assert "test failed" in done.errors


def test_kustomize_replaces_images_and_names(layout: Path) -> None:
    staging = layout / "overlays" / "staging"
    document = yaml.safe_load((staging / "kustomization.yaml").read_text())
    document["images"] = [{"name": "registry.example.com/epd-operator/worker-gpu", "newTag": "0.9.0"}]
    document["nameSuffix"] = "-eu"
    document["resources"].append("claim.yaml")
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "models"}}
    (staging / "claim.yaml").write_text(yaml.safe_dump(claim))
    (staging / "kustomization.yaml").write_text(yaml.safe_dump(document))
    rendered = {d["kind"]: d for d in yaml.safe_load_all(Kubectl().get("kustomize", staging))}
    spec = rendered["EPDDeployment"]["spec"]
    assert spec["runtime"]["image"] == "registry.example.com/epd-operator/worker-gpu:0.9.0"
    assert spec["model"]["storage"]["claimName"] == rendered["PersistentVolumeClaim"]["metadata"]["name"] == "models-eu"

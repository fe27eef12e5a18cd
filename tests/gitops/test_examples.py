"""The examples for Argo CD and Flux are consistent, and the page shows them as they are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.gitops import EXAMPLES, HEALTH_LUA, ROOT, Checker, flux_expressions, health_checker
from support.helm import CHART, Helm, binary

ARGO_CD = EXAMPLES / "argocd"
FLUX = EXAMPLES / "flux"
PAGES = sorted((ROOT / "docs").glob("gitops*.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLUX_OBJECTS = [
    pytest.param(document, id=f"{path.stem}-{document['kind']}")
    for path in sorted(FLUX.rglob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if isinstance(document, dict) and "toolkit.fluxcd.io" in document["apiVersion"]
]


def settings() -> dict[str, str]:
    """The data of the example for Argo CD's ConfigMap."""
    data: dict[str, str] = yaml.safe_load((ARGO_CD / "argocd-cm.yaml").read_text())["data"]
    return data


def applications() -> dict[str, dict[str, Any]]:
    """Argo CD's Applications, by name."""
    paths = (ARGO_CD / "root.yaml", *sorted((ARGO_CD / "apps").glob("*.yaml")))
    return {document["metadata"]["name"]: document for document in (yaml.safe_load(p.read_text()) for p in paths)}


def yaml_of_page() -> list[Any]:
    """The documents in the YAML blocks of the pages."""
    found = [block for page in PAGES for block in FENCE.findall(page.read_text())]
    blocks = [text for language, text in found if language == "yaml"]
    return [document for text in blocks for document in yaml.safe_load_all(text)]


def test_the_script_in_the_config_map_is_the_file() -> None:
    assert settings()["resource.customizations.health.epd.dev_EPDDeployment"] == HEALTH_LUA.read_text()


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, "Progressing"),
        ({"health": {}}, "Progressing"),
        ({"health": {"status": "Healthy"}}, "Healthy"),
        ({"health": {"status": "Degraded", "message": "m"}}, "Degraded"),
    ],
)
def test_an_application_has_the_health_of_its_resources(tmp_path: Path, status: dict[str, Any], expected: str) -> None:
    script = tmp_path / "script.lua"
    script.write_text(settings()["resource.customizations.health.argoproj.io_Application"])
    with health_checker(tmp_path, lua=script) as checker:
        result = checker.health({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "status": status})
    assert (result.argocd.status, result.argocd.error) == (expected, "")


def test_argo_cd_and_flux_fail_on_the_same_reasons() -> None:
    lua = re.search(r"needs_a_person = \{(.*?)\}", HEALTH_LUA.read_text(), re.DOTALL)
    cel = re.search(r"c\.reason in (\[.*?\])", flux_expressions()["failed"])
    assert lua
    assert cel
    assert re.findall(r"(\w+) = true", lua[1]) == json.loads(cel[1].replace("'", '"'))


@pytest.mark.parametrize("document", FLUX_OBJECTS)
def test_flux_accepts_all_fields_of_its_objects(flux_types: Checker, document: dict[str, Any]) -> None:
    result = flux_types.decode(document)
    assert (result.status, result.error) == (document["kind"], "")


def test_flux_rejects_unknown_fields(flux_types: Checker) -> None:
    document = yaml.safe_load((FLUX / "serving.yaml").read_text())
    document["spec"]["healthCheckExpressions"] = document["spec"].pop("healthCheckExprs")
    assert "healthCheckExpressions" in flux_types.decode(document).error


def test_the_operator_is_installed_before_the_objects() -> None:
    waves = {name: a["metadata"].get("annotations", {}) for name, a in applications().items() if name != "epd"}
    order = {name: int(annotations["argocd.argoproj.io/sync-wave"]) for name, annotations in waves.items()}
    assert order["epd-operator"] < order["serving"]
    operator = yaml.safe_load((FLUX / "operator.yaml").read_text())
    serving = yaml.safe_load((FLUX / "serving.yaml").read_text())
    assert [dependency["name"] for dependency in serving["spec"]["dependsOn"]] == [operator["metadata"]["name"]]


def test_paths_in_the_examples_exist() -> None:
    paths = [a["spec"]["source"]["path"] for a in applications().values() if "path" in a["spec"]["source"]]
    flux = (FLUX / "operator.yaml", FLUX / "serving.yaml")
    paths.extend(yaml.safe_load(path.read_text())["spec"]["path"] for path in flux)
    assert len(paths) == 4
    assert [path for path in paths if not any((ROOT / path).iterdir())] == []


def test_the_examples_set_values_that_the_chart_has() -> None:
    known = yaml.safe_load((CHART / "values.yaml").read_text())
    release = next(p.values[0] for p in FLUX_OBJECTS if p.values[0]["kind"] == "HelmRelease")
    operator = applications()["epd-operator"]
    for values in (release["spec"]["values"], operator["spec"]["source"]["helm"]["valuesObject"]):
        assert values.keys() <= known.keys()
        assert values.get("crds", {}).keys() <= known["crds"].keys()
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    assert operator["spec"]["source"]["targetRevision"] == version


def test_argo_cd_and_helm_keep_the_crds_and_the_role_of_the_worker_pods(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(applications()["epd-operator"]["spec"]["source"]["helm"]["valuesObject"]))
    rendered = Helm(program=binary("helm"), major=3, home=tmp_path).template("--values", str(values))
    kept = {"helm.sh/resource-policy": "keep", "argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}
    found = [document["kind"] for document in rendered if document["metadata"].get("annotations") == kept]
    assert sorted(found) == ["ClusterRole", *3 * ["CustomResourceDefinition"]]
    others = {document["kind"] for document in rendered if document["metadata"].get("annotations") != kept}
    assert not others & {"CustomResourceDefinition", "Namespace", "PersistentVolumeClaim", "Secret", "EPDDeployment"}


def test_argo_cd_deletes_the_operator_that_leaves_git_but_not_the_objects() -> None:
    """Argo CD deletes the resources of a deleted Application only if the Application has a finalizer.

    https://argo-cd.readthedocs.io/en/stable/user-guide/app_deletion/
    """
    finalizers = {name: a["metadata"].get("finalizers", []) for name, a in applications().items()}
    assert finalizers == {"epd": [], "epd-operator": ["resources-finalizer.argocd.argoproj.io"], "serving": []}


def test_no_example_owns_a_namespace_with_objects_of_users_that_its_tool_may_delete() -> None:
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if isinstance(document, dict) and document.get("kind") in ("Namespace", "PersistentVolumeClaim"):
                assert document["metadata"]["annotations"] == {"kustomize.toolkit.fluxcd.io/prune": "disabled"}, path


def test_the_page_shows_the_examples_as_they_are() -> None:
    shown = yaml_of_page()
    files = [
        document
        for path in sorted([*ARGO_CD.rglob("*.yaml"), *FLUX.rglob("*.yaml"), *(EXAMPLES / "kustomize").rglob("*.yaml")])
        for document in yaml.safe_load_all(path.read_text())
    ]
    assert len(shown) >= 3
    assert [document for document in shown if document not in files] == []
    assert yaml.safe_load((FLUX / "serving.yaml").read_text()) in shown

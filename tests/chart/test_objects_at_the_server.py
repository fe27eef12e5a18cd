"""A real API server accepts the objects of the chart, and the pod complies with the Pod Security level restricted."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.apiserver import CRD_PATH, ApiServer
from support.chart_values import SETS
from support.charts import CRD_FILES, Site, crd
from support.client import Answer
from support.helm import CHART, Helm
from support.kinds import collection

NAMESPACES = ("epd-system", "team-a", "team-b", "restricted")
every_set = pytest.mark.parametrize("chosen", SETS.values(), ids=list(SETS))


@pytest.fixture(scope="module")
def server(bare_api_server: ApiServer) -> ApiServer:
    """With the namespaces that the value sets name, one of which enforces the level restricted."""
    for name in NAMESPACES:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"} if name == "restricted" else {}
        body = {"metadata": {"name": name, "labels": labels}}
        assert bare_api_server.client.create("/api/v1/namespaces", body).status in (201, 409)
    return bare_api_server


@every_set
def test_every_object_is_accepted_with_strict_validation_and_without_a_warning(
    offline_helm: Helm, server: ApiServer, tmp_path: Path, chosen: dict[str, Any]
) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(chosen))
    for item in offline_helm.template("-f", str(tmp_path / "values.yaml")):
        answer = server.client.create(collection(server.client, item), item, dry_run=True)
        assert answer.ok, f"{item['kind']} {item['metadata']['name']}: {answer.message}"
        assert answer.warnings == ()


def create_pod(server: ApiServer, template: dict[str, Any]) -> Answer:
    """Create a pod of the template (dry run) in the namespace that enforces the level restricted."""
    accounts = "/api/v1/namespaces/restricted/serviceaccounts"
    server.client.create(accounts, {"metadata": {"name": template["spec"]["serviceAccountName"]}})
    pod = {"metadata": {"name": "operator", "labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    return server.client.create("/api/v1/namespaces/restricted/pods", pod, dry_run=True)


@every_set
def test_the_pod_complies_with_the_level_restricted(
    offline_helm: Helm, server: ApiServer, tmp_path: Path, chosen: dict[str, Any]
) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(chosen))
    objects = offline_helm.template("-f", str(tmp_path / "values.yaml"))
    (template,) = [item["spec"]["template"] for item in objects if item["kind"] == "Deployment"]
    answer = create_pod(server, template)
    assert answer.ok, answer.message
    (container,) = template["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    violating = copy.deepcopy(template)
    del violating["spec"]["securityContext"]["runAsNonRoot"]
    assert "violates PodSecurity" in create_pod(server, violating).message


def test_the_examples_that_artifact_hub_shows_are_accepted(site: Site) -> None:
    for name in CRD_FILES:
        site.server.install_crd(crd(name))
    notes = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    examples = yaml.safe_load(notes["artifacthub.io/crdsExamples"])
    assert examples
    for example in examples:
        example["metadata"]["namespace"] = site.teams[0]
        answer = site.client.create(collection(site.client, example), example, dry_run=True)
        assert answer.ok, answer.message
    assert site.client.get(CRD_PATH).body["items"]

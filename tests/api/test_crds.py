"""The API server accepts the CRDs and serves them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_operator.api.v1alpha1 import EPDDeployment
from epd_operator.api.v1alpha1.epddeployment import GROUP, PLURAL, VERSION
from epd_operator.api.v1alpha1.epdstagescale import SCALE_PLURAL
from support.apiserver import ApiServer
from support.bad_objects import A, C, D, deployment
from support.client import Answer
from support.examples import deployment_files

ROOT = Path(__file__).parents[2]
EXAMPLES = deployment_files()
COLLECTION = f"/apis/{GROUP}/{VERSION}/namespaces/default/{PLURAL}"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def stored(api_server: ApiServer, value: dict[str, Any]) -> dict[str, Any]:
    """The object as the server would store it."""
    answer = api_server.client.create(COLLECTION, value, dry_run=True)
    assert answer.ok, answer.message
    return answer.body


def test_the_server_accepts_the_crds_without_a_warning(crd_answers: list[Answer]) -> None:
    assert [(answer.status, answer.warnings) for answer in crd_answers] == [(201, ())] * 3


@pytest.mark.parametrize("name", [f"{PLURAL}.{GROUP}", f"{SCALE_PLURAL}.{GROUP}", "dynamoworkermetadatas.nvidia.com"])
def test_the_server_accepts_the_names_and_establishes_the_crd(api_server: ApiServer, name: str) -> None:
    crd = api_server.client.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}").body
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_example_is_accepted_under_strict_field_validation(api_server: ApiServer, path: Path) -> None:
    documents = list(yaml.safe_load_all(path.read_text()))
    assert documents
    for document in documents:
        answer = api_server.client.create(COLLECTION, document, dry_run=True)
        assert answer.ok, answer.message
        assert answer.warnings == ()


def test_examples_of_all_topologies_exist_for_the_local_cluster_and_for_gpus() -> None:
    found = {(path.parent.name, path.stem) for path in EXAMPLES}
    assert found >= {(place, topology.lower()) for place in ("local", "gpu") for topology in (A, C, D)}


@pytest.mark.parametrize("topology", [A, C, D])
def test_the_server_fills_in_the_defaults_of_the_models(api_server: ApiServer, topology: str) -> None:
    changes: dict[str, Any] = {"model.storage": {"claimName": "weights"}, "frontend": {"service": {}}}
    value = deployment(topology, changes=changes)
    expected = EPDDeployment.model_validate(value).model_dump(mode="json", by_alias=True, exclude_none=True)
    assert stored(api_server, value)["spec"] == expected["spec"]


def test_the_server_treats_null_as_an_absent_field(api_server: ApiServer) -> None:
    plain = deployment(D)
    nulls = {"pd.replicas": None, "worker": None, "frontend": None, "pools.0.nodeSelector": {"tier": None}}
    spec = stored(api_server, deployment(D, changes=nulls))["spec"]
    assert spec["pd"]["replicas"] == 1
    assert "worker" not in spec
    assert spec["frontend"] == stored(api_server, plain)["spec"]["frontend"]
    assert spec["pools"][0].get("nodeSelector", {}) == {}


def test_passed_through_objects_are_stored_unchanged(api_server: ApiServer) -> None:
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    template = {"volumes": [volume], "affinity": affinity}
    spec = stored(api_server, deployment(D, changes={"podTemplate": template}))["spec"]
    assert spec["podTemplate"] == template


def test_server_side_apply_merges_pools_and_variables_by_name(api_server: ApiServer) -> None:
    path = f"{COLLECTION}/merged"
    whole = deployment(D, name="merged", changes={"runtime.env": [{"name": "A", "value": "1"}]})
    assert api_server.client.apply(path, whole, manager="user").ok
    part = {"runtime": {"env": [{"name": "B", "value": "2"}]}, "pools": [{"name": "rtx", "gpu": {"memory": "96Gi"}}]}
    answer = api_server.client.apply(path, {**whole, "spec": part}, manager="other")
    assert answer.ok, answer.message
    assert [variable["name"] for variable in answer.body["spec"]["runtime"]["env"]] == ["A", "B"]
    assert [pool["name"] for pool in answer.body["spec"]["pools"]] == ["gb200", "rtx"]
    assert answer.body["spec"]["pools"][1]["nodeSelector"] == {"tier": "cheap"}


CONDITION = {
    "type": "Ready",
    "status": "True",
    "observedGeneration": 1,
    "lastTransitionTime": "2026-11-29T12:00:00Z",
    "reason": "AllStagesReady",
    "message": "2 of 2",
}
STATUS = {
    "observedGeneration": 1,
    "summary": "frontend 1/1, encoder 2/2, pd 3/3",
    "endpoint": "http://qwen.default.svc:8000",
    "conditions": [CONDITION],
}


def test_status_and_spec_are_written_separately(api_server: ApiServer) -> None:
    path = f"{COLLECTION}/apart"
    created = api_server.client.create(COLLECTION, {**deployment(D, name="apart"), "status": STATUS})
    assert created.ok, created.message
    # The default of a status that was not written yet; the status in the user's request is dropped.
    assert created.body["status"] == {"observedGeneration": 0}
    changed = deployment(D, name="apart", changes={"pd.replicas": 9})
    written = api_server.client.apply(f"{path}/status", {**changed, "status": STATUS}, manager="status")
    assert written.ok, written.message
    assert written.body["status"] == STATUS
    assert written.body["spec"] == created.body["spec"]
    assert written.body["metadata"]["generation"] == 1


def test_get_shows_topology_readiness_stages_endpoint_and_age(api_server: ApiServer) -> None:
    path = f"{COLLECTION}/shown"
    value = deployment(D, name="shown")
    assert api_server.client.create(COLLECTION, value).ok
    assert api_server.client.apply(f"{path}/status", {**value, "status": {**STATUS, "topology": D}}).ok
    table = api_server.client.request("GET", path, accept=TABLE).body
    shown = dict(zip([c["name"] for c in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))
    assert shown.pop("Age")
    assert shown == {
        "Name": "shown",
        "Topology": D,
        "Ready": "True",
        "Stages": STATUS["summary"],
        "Endpoint": STATUS["endpoint"],
        "Reason": "AllStagesReady",
        "Wanted": D,
    }


def kubectl(api_server: ApiServer, *arguments: str) -> str:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl on this machine")
    environment = {**os.environ, "HOME": str(api_server.folder)}
    command = [program, f"--kubeconfig={api_server.kubeconfig}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def test_kubectl_accepts_the_short_name_and_shows_the_columns(api_server: ApiServer) -> None:
    value = deployment(A, name="short")
    assert api_server.client.create(COLLECTION, value).ok
    status = {**value, "status": {"topology": C}}
    assert api_server.client.apply(f"{COLLECTION}/short/status", status, manager="status").ok
    header, row = kubectl(api_server, "get", "epd", "short").splitlines()
    assert header.split() == ["NAME", "TOPOLOGY", "READY", "STAGES", "ENDPOINT", "AGE"]
    assert row.split()[:2] == ["short", C], "what serves, not what the spec asks for"
    header, row = kubectl(api_server, "get", "epd", "short", "-o", "wide").splitlines()
    assert (header.split()[-1], row.split()[-1]) == ("WANTED", A)


def test_kubectl_explains_every_field(api_server: ApiServer) -> None:
    explained = kubectl(api_server, "explain", "epd.spec.encoder")
    assert "The encoders of topology Disaggregated." in explained
    assert "pool\t<string> -required-" in explained
    assert "Name of the pool that the pods run on." in explained
    assert "enum: Aggregated, CoLocated, Disaggregated" in kubectl(api_server, "explain", "epd.spec")


def test_every_field_has_a_description(api_server: ApiServer) -> None:
    document = api_server.client.get(f"/openapi/v3/apis/{GROUP}/{VERSION}").body
    kind = document["components"]["schemas"]["dev.epd.v1alpha1.EPDDeployment"]
    bare: list[str] = []

    def walk(schema: dict[str, Any], path: str) -> None:
        for name, child in schema.get("properties", {}).items():
            if not child.get("description"):
                bare.append(f"{path}.{name}")
            walk(child, f"{path}.{name}")
        for below in ("items", "additionalProperties"):
            if isinstance(schema.get(below), dict):
                walk(schema[below], path)

    walk(kind["properties"]["spec"], "spec")
    walk(kind["properties"]["status"], "status")
    assert bare == []


def test_a_worker_record_of_any_form_is_stored_unchanged(api_server: ApiServer) -> None:
    collection = "/apis/nvidia.com/v1alpha1/namespaces/default/dynamoworkermetadatas"
    data = {"endpoints": {"ns/backend/generate": {"instance_id": 7, "transport": {"tcp": "10.0.0.1:1"}}}, "cards": [{}]}
    record = {"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoWorkerMetadata", "metadata": {"name": "pod-main"}}
    answer = api_server.client.apply(f"{collection}/pod-main", {**record, "spec": {"data": data}})
    assert answer.ok, answer.message
    assert json.loads(json.dumps(answer.body["spec"]["data"])) == data

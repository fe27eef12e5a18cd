"""The chart's policies give the right warnings and denials, with the path of the field."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_local.builds import pypi
from epd_local.locations import locations
from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import Identity
from epd_operator.plan.stages.plan_stages import plan_stages
from epd_operator.plan.workloads.deployment import deployment as stage_deployment
from support.admission import apply, collection, named, names, quiet, warnings
from support.admission_cases import DENIALS, FINE, WARNINGS, Case, Fine, old_object, scaled
from support.apiserver import ApiServer
from support.bad_objects import deployment
from support.client import Answer

ROOT = Path(__file__).parents[2]
LEFT_OF_MANY = 256
"""Characters of each warning that the API server keeps if there are many."""


def sentence(case: Case | Fine) -> str:
    return f"{case.name}-{case.sentence}"


@pytest.mark.parametrize("case", WARNINGS, ids=sentence)
def test_the_api_server_warns(policy_server: ApiServer, case: Case) -> None:
    answer = policy_server.client.create(collection(), quiet(case.topology, dict(case.changes)), dry_run=True)
    assert answer.ok, answer.message
    (warning,) = warnings(answer)
    assert (warning.policy, warning.name) == ("epd-operator-warnings", case.name)
    assert warning.text.startswith(f"{case.name}: {case.path}: "), warning.text
    assert f"{case.name}: {case.path}: " in warning.whole[:LEFT_OF_MANY]


@pytest.mark.parametrize("case", FINE, ids=sentence)
def test_the_api_server_gives_no_warning(policy_server: ApiServer, case: Fine) -> None:
    answer = policy_server.client.create(collection(), quiet(case.topology, dict(case.changes)), dry_run=True)
    assert answer.ok, answer.message
    assert answer.warnings == ()


@pytest.mark.parametrize("case", DENIALS, ids=sentence)
def test_the_api_server_denies(policy_server: ApiServer, case: Case) -> None:
    answer = policy_server.client.create(collection(), quiet(case.topology, dict(case.changes)), dry_run=True)
    assert answer.status == 422, answer.body
    assert f"'epd-operator-denials' denied request: {case.name}: {case.path}: " in answer.message


def test_every_warning_and_every_denial_has_a_case_and_a_near_miss(rendered: list[dict[str, Any]]) -> None:
    found = {document["metadata"]["name"]: document for document in rendered if document["kind"].endswith("Policy")}
    cases = {case.name for case in WARNINGS} | {"TopologyChange"}
    assert cases == set(names(found["epd-operator-warnings"]))
    assert {case.name for case in DENIALS} == set(names(found["epd-operator-denials"]))
    near = {case.name for case in FINE} | {"TopologyChange"}
    assert near - {"nothing"} == cases | {case.name for case in DENIALS}


def test_a_change_of_topology_gives_a_warning_if_it_interrupts_the_answers(policy_server: ApiServer) -> None:
    recreate = {"rollout": {"strategy": "Recreate"}}
    before = quiet("Aggregated", name="moves")
    assert apply(policy_server.client, before).warnings == ()
    after = quiet("CoLocated", recreate, name="moves")
    (warning,) = warnings(apply(policy_server.client, after, dry_run=True))
    assert warning.text.startswith("TopologyChange: spec.topology: ")
    near_misses = (("CoLocated", {}), ("Aggregated", recreate), ("Aggregated", {"worker.replicas": 3}))
    for topology, changes in near_misses:
        assert apply(policy_server.client, quiet(topology, changes, name="moves"), dry_run=True).warnings == ()


def test_the_message_contains_the_numbers_of_a_band(policy_server: ApiServer) -> None:
    (case,) = [case for case in WARNINGS if case.sentence == "too few encoders"]
    (warning,) = warnings(policy_server.client.create(collection(), quiet(changes=dict(case.changes)), dry_run=True))
    assert "2 to 4 encoders and 5 to 5 PD workers" in warning.text


def test_the_message_contains_the_kind_of_gpu(policy_server: ApiServer) -> None:
    (case,) = [case for case in WARNINGS if case.sentence == "one product in two pools"]
    (warning,) = warnings(policy_server.client.create(collection(), quiet(changes=dict(case.changes)), dry_run=True))
    assert "both use nvidia.com/gpu NVIDIA-GB200" in warning.text


def test_a_credential_in_one_item_with_its_flag_is_found_and_not_repeated(policy_server: ApiServer) -> None:
    body = quiet(changes={"pd.args": ["--api-key s3cret"]})
    answer = policy_server.client.create(collection(), body, dry_run=True)
    assert named(answer) == ["PlainSecret", "ValueInFlag"]
    assert "s3cret" not in "".join(answer.warnings)


def test_many_warnings_are_all_returned(policy_server: ApiServer) -> None:
    everything = {
        **{"transfer": {"rdmaResource": "rdma/ib", "ucx": {"transports": ["tcp", "self"]}}},
        **{"drain.timeoutSeconds": 1, "scaling.metricsSource": "Prometheus", "scaling.encodersPerPd.minPercent": 9000},
        **{"runtime.image": "r/amd64", "encoder.args": ["--revision", "a"], "pools.1.gpu.product": "NVIDIA-GB200"},
        **{"pd.args": ["--api-key", "secret", "--max-num-seqs", "1"], "pd.autoscaling": scaled(3, 3)},
    }
    answer = policy_server.client.create(collection(), deployment(changes=everything), dry_run=True)
    assert answer.ok, answer.message
    assert len(named(answer)) == len(set(named(answer))) == 14


# Examples


def manifests(text: str) -> list[dict[str, Any]]:
    """The EPDDeployments among YAML documents."""
    found = [document for document in yaml.safe_load_all(text) if isinstance(document, dict)]
    return [document for document in found if document.get("kind") == "EPDDeployment"]


def examples() -> list[Any]:
    """Complete examples, and the objects that overlays render."""
    found = []
    for path in sorted((ROOT / "examples").glob("*/*.yaml")):
        found += [pytest.param(m, id=f"{path.parent.name}/{path.name}") for m in manifests(path.read_text())]
    for path in sorted((ROOT / "examples").glob("**/overlays/*/kustomization.yaml")):
        command = [pypi.kubectl(locations()), "kustomize", path.parent]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found += [pytest.param(m, id=f"overlay {path.parent.name}") for m in manifests(text)]
    return found


@pytest.mark.parametrize("document", examples())
def test_an_example_gives_no_warning(policy_server: ApiServer, document: dict[str, Any]) -> None:
    document["metadata"].pop("namespace", None)
    answer = policy_server.client.create(collection(), document, dry_run=True)
    assert answer.ok, answer.message
    assert answer.warnings == ()


# Objects older than the policies


@pytest.mark.parametrize("case", DENIALS, ids=sentence)
def test_an_object_older_than_a_denial_can_be_changed_corrected_and_deleted(
    policy_server: ApiServer, case: Case
) -> None:
    old = old_object(case)
    name = old["metadata"]["name"]
    changed = {**old, "spec": {**old["spec"], "drain": {"timeoutSeconds": 600}}}
    assert apply(policy_server.client, changed, namespace="old").message == ""
    corrected = quiet(case.topology, name=name)
    assert apply(policy_server.client, corrected, namespace="old", dry_run=True).message == ""
    assert policy_server.client.request("DELETE", f"{collection('old')}/{name}?dryRun=All").ok


def test_a_corrected_object_cannot_violate_the_policy_again(policy_server: ApiServer) -> None:
    (case,) = [case for case in DENIALS if case.name == "CacheAboveLimit"]
    assert apply(policy_server.client, quiet(case.topology, name="corrected")).ok
    answer = apply(policy_server.client, quiet(case.topology, dict(case.changes), name="corrected"))
    assert answer.status == 422
    assert "CacheAboveLimit: spec.worker.embeddingCache: " in answer.message


def test_an_object_that_violates_a_policy_in_one_stage_cannot_violate_it_in_another(policy_server: ApiServer) -> None:
    (case,) = [case for case in DENIALS if case.name == "NoKVCache"]
    worse = old_object(case)
    worse["spec"]["frontend"]["autoscaling"] = worse["spec"]["encoder"]["autoscaling"]
    answer = apply(policy_server.client, worse, namespace="old", dry_run=True)
    assert answer.status == 422
    assert "NoKVCache: spec.frontend.autoscaling.metrics: " in answer.message


# Requests that are not checked


def noisy(name: str) -> dict[str, Any]:
    return quiet("Aggregated", {"drain.timeoutSeconds": 1}, name=name)


def test_status_can_be_written_without_a_warning(policy_server: ApiServer) -> None:
    assert named(apply(policy_server.client, noisy("status"))) == ["ShortDrain"]
    status = {**noisy("status"), "status": {"observedGeneration": 1, "summary": "0/1"}}
    del status["spec"]
    path = f"{collection()}/status/status?fieldManager=epd-operator-status&force=true"
    answer = policy_server.client.request("PATCH", path, status, content_type="application/apply-patch+yaml")
    assert answer.ok, answer.message
    assert answer.body["status"]["summary"] == "0/1"
    assert answer.warnings == ()


def test_labels_can_be_changed_without_a_warning(policy_server: ApiServer) -> None:
    labelled = noisy("labels")
    assert named(apply(policy_server.client, labelled)) == ["ShortDrain"]
    labelled["metadata"]["labels"] = {"team": "a"}
    answer = apply(policy_server.client, labelled)
    assert answer.body["metadata"]["labels"] == {"team": "a"}
    assert answer.warnings == ()


def test_applying_the_same_object_again_gives_no_warning_and_a_new_spec_does(policy_server: ApiServer) -> None:
    again = noisy("again")
    assert named(apply(policy_server.client, again)) == ["ShortDrain"]
    assert apply(policy_server.client, again).warnings == ()
    again["spec"]["worker"]["replicas"] = 3
    assert named(apply(policy_server.client, again)) == ["ShortDrain"]


def test_a_terminating_object_gives_no_warning(policy_server: ApiServer) -> None:
    terminating = noisy("terminating")
    terminating["metadata"]["finalizers"] = ["example.com/test"]
    assert named(apply(policy_server.client, terminating)) == ["ShortDrain"]
    assert policy_server.client.request("DELETE", f"{collection()}/terminating").ok
    terminating["spec"]["worker"]["replicas"] = 3
    answer = apply(policy_server.client, terminating)
    assert answer.body["metadata"]["deletionTimestamp"]
    assert answer.warnings == ()


# Accepted warnings


@pytest.mark.parametrize("accepted", ["ShortDrain", "SingleReplica, ShortDrain", " ShortDrain ,"])
def test_an_accepted_warning_is_not_given(policy_server: ApiServer, accepted: str) -> None:
    changes = {"drain.timeoutSeconds": 1}
    answer = policy_server.client.create(collection(), quiet(changes=changes, accepted=accepted), dry_run=True)
    assert answer.ok
    assert answer.warnings == ()


@pytest.mark.parametrize("accepted", ["", "SingleReplica", "ShortDrains", "shortdrain", "ShortDrain SingleReplica"])
def test_other_warnings_are_still_given(policy_server: ApiServer, accepted: str) -> None:
    changes = {"drain.timeoutSeconds": 1}
    answer = policy_server.client.create(collection(), quiet(changes=changes, accepted=accepted), dry_run=True)
    assert named(answer) == ["ShortDrain"]


def test_a_denial_cannot_be_accepted(policy_server: ApiServer) -> None:
    (case,) = [case for case in DENIALS if case.name == "CacheAboveLimit"]
    found = quiet(case.topology, dict(case.changes), accepted="CacheAboveLimit")
    assert policy_server.client.create(collection(), found, dry_run=True).status == 422


# What kubectl shows, and what the API server would refuse without the policies


def test_kubectl_shows_warnings_at_apply(policy_server: ApiServer, tmp_path: Path) -> None:
    manifest = tmp_path / "object.json"
    manifest.write_text(json.dumps(quiet(changes={"drain.timeoutSeconds": 1, "frontend.replicas": 1}, name="seen")))
    command = [pypi.kubectl(locations()), f"--kubeconfig={policy_server.kubeconfig}", "apply", "-f", manifest]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "epddeployment.epd.dev/seen created\n"
    shown = [line.partition("'epd-operator-warnings': ")[2] for line in done.stderr.splitlines()]
    assert all(line.startswith("Warning: ") for line in done.stderr.splitlines())
    assert [text.partition(": ")[0] for text in shown] == ["SingleReplica", "ShortDrain"]


def test_kubectl_shows_why_an_object_is_denied(policy_server: ApiServer, tmp_path: Path) -> None:
    (case,) = [case for case in DENIALS if case.name == "BudgetTooSmall"]
    manifest = tmp_path / "object.json"
    manifest.write_text(json.dumps(quiet(changes=dict(case.changes), name="denied")))
    command = [pypi.kubectl(locations()), f"--kubeconfig={policy_server.kubeconfig}", "apply", "-f", manifest]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "denied request: BudgetTooSmall: spec.scaling.gpuBudget: " in done.stderr


IN_CHILDREN = ("HugePages", "TwoVolumeSources")


@pytest.mark.parametrize("case", [case for case in DENIALS if case.name in IN_CHILDREN], ids=sentence)
def test_the_api_server_would_refuse_the_children_of_denied_objects(policy_server: ApiServer, case: Case) -> None:
    assert any(answer.status == 422 for answer in children(policy_server, case))


@pytest.mark.parametrize("case", [case for case in FINE if case.name in IN_CHILDREN], ids=sentence)
def test_the_api_server_accepts_the_children_of_similar_objects(policy_server: ApiServer, case: Fine) -> None:
    assert [answer.message for answer in children(policy_server, case)] == ["", "", ""]


def children(server: ApiServer, case: Case | Fine) -> list[Answer]:
    """Answers to the Deployments that the operator would create."""
    identity = Identity(name="qwen", namespace="default", uid="1")
    spec = EPDDeploymentSpec.model_validate(quiet(case.topology, dict(case.changes))["spec"])
    made = (stage_deployment(stage, identity=identity) for stage in plan_stages(spec, identity=identity))
    return [server.client.create("/apis/apps/v1/namespaces/default/deployments", one, dry_run=True) for one in made]

"""Pods comply with the Pod Security Standards, checked by the real admission plugin."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import Identity
from epd_operator.plan.stages.plan_stages import plan_stages
from support.apiserver import ApiServer
from support.helm import Helm, binary
from support.specs import TOPOLOGIES, raw_spec

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "gpu").glob("*.yaml")) + sorted((ROOT / "examples" / "local").glob("*.yaml"))
LEVELS = ("restricted", "baseline", "privileged")

SPECS: dict[str, tuple[dict[str, Any], str, str]] = {
    **{topology: (raw_spec(topology), "restricted", "") for topology in TOPOLOGIES},
    "RDMA": (raw_spec(transfer={"rdmaResource": "rdma/ib"}), "restricted", ""),
    "RDMA as root": (
        raw_spec(transfer={"rdmaResource": "rdma/ib", "lockedMemory": "Root"}),
        "privileged",
        "IPC_LOCK",
    ),
    "a folder of the node": (
        raw_spec(podTemplate={"volumes": [{"name": "data", "hostPath": {"path": "/data"}}]}),
        "privileged",
        "hostPath",
    ),
}
"""A spec, the strictest level that its pods comply with, and why the next stricter level refuses them."""


def example(path: Path) -> tuple[dict[str, Any], str, str]:
    spec = yaml.safe_load(path.read_text())["spec"]
    # Examples for the local cluster take the worker environment from folders of the nodes.
    local = path.parent.name == "local"
    reason = "hostPath" if local else ""
    return spec, "privileged" if reason else "restricted", reason


CASES = SPECS | {f"{path.parent.name}/{path.stem}": example(path) for path in EXAMPLES}


@pytest.fixture(scope="module")
def namespaces(controllers: ApiServer) -> dict[str, str]:
    """A namespace for each level."""
    made = {}
    for level in LEVELS:
        name = f"{level}-{uuid.uuid4().hex[:6]}"
        labels = {"pod-security.kubernetes.io/enforce": level}
        assert controllers.client.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}).ok
        path = f"/api/v1/namespaces/{name}/serviceaccounts"
        for account in ("qwen-discovery", "epd-operator"):
            body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
            assert controllers.client.create(path, body).ok
        made[level] = name
    return made


def pods_of(spec: dict[str, Any], *, namespace: str) -> list[dict[str, Any]]:
    identity = Identity(name="qwen", namespace=namespace, uid="u")
    stages = plan_stages(EPDDeploymentSpec.model_validate(spec), identity=identity)
    return [
        {"apiVersion": "v1", "kind": "Pod", "spec": stage.pod_template["spec"], "metadata": {"name": f"p-{stage.name}"}}
        for stage in stages
    ]


def refusals(server: ApiServer, pods: list[dict[str, Any]], *, namespace: str) -> list[str]:
    answers = [server.client.create(f"/api/v1/namespaces/{namespace}/pods", pod, dry_run=True) for pod in pods]
    assert {answer.status for answer in answers} <= {201, 403}, [answer.message for answer in answers]
    return [answer.message for answer in answers if not answer.ok]


@pytest.mark.parametrize("case", CASES)
def test_pods_comply_with_the_documented_pod_security_level_and_no_stricter_one(
    controllers: ApiServer, namespaces: dict[str, str], case: str
) -> None:
    spec, level, reason = CASES[case]
    assert refusals(controllers, pods_of(spec, namespace=namespaces[level]), namespace=namespaces[level]) == []
    for stricter in LEVELS[: LEVELS.index(level)]:
        refused = refusals(controllers, pods_of(spec, namespace=namespaces[stricter]), namespace=namespaces[stricter])
        assert refused
        assert any(reason in message for message in refused), refused


def test_the_operators_pod_is_restricted_and_its_root_file_system_is_read_only(
    controllers: ApiServer, namespaces: dict[str, str], tmp_path: Path
) -> None:
    chart = Helm(program=binary("helm"), major=3, home=tmp_path).template()
    (deployment,) = [o for o in chart if o["kind"] == "Deployment"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}}
    pod["spec"] = deployment["spec"]["template"]["spec"]
    assert refusals(controllers, [pod], namespace=namespaces["restricted"]) == []
    assert all(c["securityContext"]["readOnlyRootFilesystem"] for c in pod["spec"]["containers"])


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_no_pod_shares_namespaces_of_the_node_or_runs_as_another_account(topology: str) -> None:
    for pod in pods_of(raw_spec(topology), namespace="n"):
        spec = pod["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"} & spec.keys()
        assert spec["serviceAccountName"] == "qwen-discovery"
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert not any("privileged" in container["securityContext"] for container in spec["containers"])


ESCAPES: dict[str, dict[str, Any]] = {
    field: {field: value}
    for field, value in {
        "serviceAccountName": "admin",
        "automountServiceAccountToken": True,
        "hostNetwork": True,
        "hostPID": True,
        "hostIPC": True,
        "securityContext": {"runAsUser": 0},
        "containers": [{"name": "main", "securityContext": {"privileged": True}}],
        "initContainers": [{"name": "root", "image": "x", "securityContext": {"privileged": True}}],
        "nodeName": "control-plane-0",
    }.items()
}


@pytest.mark.parametrize("field", ESCAPES)
@pytest.mark.parametrize("stage", [False, True], ids=["spec", "stage"])
def test_a_pod_template_cannot_ask_for_another_account_more_rights_or_a_node(
    controllers: ApiServer, field: str, stage: bool
) -> None:
    escape = {"podTemplate": ESCAPES[field]}
    spec = raw_spec("Aggregated", **({"worker": {"pool": "gb200", **escape}} if stage else escape))
    body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "qwen"}, "spec": spec}
    path = "/apis/epd.dev/v1alpha1/namespaces/default/epddeployments"
    answer = controllers.client.create(path, body, dry_run=True)
    assert answer.status == 400
    assert f'unknown field "spec.{"worker." if stage else ""}podTemplate.{field}"' in answer.message
    # Without strict validation, which the client chooses, the field is dropped.
    lenient = controllers.client.request("POST", f"{path}?dryRun=All", body)
    assert lenient.ok, lenient.message
    kept = lenient.body["spec"]["worker"] if stage else lenient.body["spec"]
    assert field not in kept["podTemplate"]


@pytest.mark.parametrize("file", ["operator/Containerfile", "worker_images/Containerfile.cpu"])
def test_images_set_a_numeric_user_that_is_not_root(file: str) -> None:
    users = [line.split()[1] for line in (ROOT / file).read_text().splitlines() if line.startswith("USER ")]
    assert users
    assert int(users[-1].split(":")[0]) > 0


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_pods_set_their_user_and_do_not_use_that_of_the_image(topology: str) -> None:
    for pod in pods_of(raw_spec(topology), namespace="n"):
        assert pod["spec"]["securityContext"]["runAsUser"] == 1000
        assert not any({"runAsUser", "runAsNonRoot"} & c["securityContext"].keys() for c in pod["spec"]["containers"])

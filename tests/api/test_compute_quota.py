"""Pods of all topologies in a namespace whose quota requires requests and limits of every container."""

from __future__ import annotations

import copy
import uuid
from typing import Any

import pytest

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import Identity
from epd_operator.plan.stages.plan_stages import plan_stages
from support.apiserver import ApiServer
from support.client import Answer
from support.specs import TOPOLOGIES, raw_spec

HARD = {f"{part}.{resource}": "1000" for part in ("requests", "limits") for resource in ("cpu", "memory")} | {
    "requests.memory": "10Ti",
    "limits.memory": "10Ti",
}
EQUAL = {part: {"cpu": "2", "memory": "8Gi"} for part in ("requests", "limits")}
BURSTABLE = {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": EQUAL["limits"]}


@pytest.fixture(scope="module")
def namespace(controllers: ApiServer) -> str:
    """A namespace with a compute quota that the controller has counted."""
    name = f"quota-{uuid.uuid4().hex[:6]}"
    client = controllers.client
    assert client.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok
    account = {"metadata": {"name": "qwen-discovery"}}
    assert client.create(f"/api/v1/namespaces/{name}/serviceaccounts", account).ok
    quotas = f"/api/v1/namespaces/{name}/resourcequotas"
    assert client.create(quotas, {"metadata": {"name": "compute"}, "spec": {"hard": HARD}}).ok
    controllers.wait_for(
        "the quota is counted",
        lambda: client.get(f"{quotas}/compute").body.get("status", {}).get("hard", {}).keys() == HARD.keys(),
    )
    return name


def with_resources(topology: str, resources: dict[str, Any], **stub: Any) -> dict[str, Any]:
    spec = copy.deepcopy(raw_spec(topology, frontend={}))
    for stage in ("frontend", "worker", "group", "encoder", "pd"):
        if stage in spec:
            spec[stage]["resources"] = resources
    spec.get("group", {}).update(stub)
    return spec


def created(server: ApiServer, spec: dict[str, Any], *, namespace: str) -> list[Answer]:
    """The answers of the API server to a pod of each stage."""
    # Through the API server, which sets the defaults.
    body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "qwen"}, "spec": spec}
    path = f"/apis/epd.dev/v1alpha1/namespaces/{namespace}/epddeployments"
    stored = server.client.create(path, body, dry_run=True)
    assert stored.ok, stored.message
    plans = plan_stages(
        EPDDeploymentSpec.model_validate(stored.body["spec"]),
        identity=Identity(name="qwen", namespace=namespace, uid="u"),
    )
    return [
        server.client.create(
            f"/api/v1/namespaces/{namespace}/pods",
            {"metadata": {"generateName": f"{plan.name}-"}, "spec": plan.pod_template["spec"]},
            dry_run=True,
        )
        for plan in plans
    ]


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize(
    ("resources", "quality"), [(EQUAL, "Guaranteed"), (BURSTABLE, "Burstable")], ids=["equal", "higher limits"]
)
def test_a_compute_quota_admits_every_pod_whose_resources_are_set(
    controllers: ApiServer, namespace: str, topology: str, resources: dict[str, Any], quality: str
) -> None:
    answers = created(controllers, with_resources(topology, resources), namespace=namespace)
    assert len(answers) >= 2
    for answer in answers:
        assert answer.ok, answer.message
        assert answer.body["status"]["qosClass"] == quality
        spec = answer.body["spec"]
        for container in [*spec["containers"], *spec.get("initContainers", ())]:
            for part in ("requests", "limits"):
                assert {"cpu", "memory"} <= container["resources"][part].keys(), container["name"]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_compute_quota_refuses_pods_without_resources(controllers: ApiServer, namespace: str, topology: str) -> None:
    for answer in created(controllers, raw_spec(topology), namespace=namespace):
        assert answer.status == 403
        assert "must specify limits.cpu for: " in answer.message
        assert "encoder-0" not in answer.message


def test_the_amounts_of_stubs_can_be_set(controllers: ApiServer, namespace: str) -> None:
    wanted = {part: {"cpu": "50m", "memory": "48Mi", "ephemeral-storage": "1Gi"} for part in ("requests", "limits")}
    spec = with_resources("CoLocated", EQUAL, stubResources=wanted)
    group = created(controllers, spec, namespace=namespace)[-1]
    assert group.ok, group.message
    found = {container["name"]: container["resources"] for container in group.body["spec"]["containers"]}
    assert found["encoder-0"] == found["encoder-1"] == wanted
    assert {amount: found["pd"]["requests"][amount] for amount in ("cpu", "memory")} == EQUAL["requests"]

"""Failures, deletions and invalid objects, as users see them."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stories import eventually, is_ready, manifest, operator_pod, remove

from epd_local import pictures
from epd_local.demo.chat import Answer, Endpoint, RequestRefusedError
from epd_local.demo.deployment import Deployment
from epd_local.demo.installation import SYSTEM_NAMESPACE, Installation
from epd_local.demo.proof import total

OPERATOR = "deployment/epd-operator"

LONG_SECONDS = 15.0
"""Duration of a request that is in flight while its pod is deleted: a part of drain.timeoutSeconds of the example."""
SAMPLE_TOKENS = 64
MAX_TOKENS = 1500
"""With the question they fit into --max-model-len of the example."""


@pytest.fixture(scope="module")
def deployment(start: Callable[[str], Deployment]) -> Deployment:
    """A ready deployment in topology Disaggregated."""
    return start("disaggregated")


def test_a_request_in_flight_is_finished_when_its_pod_is_deleted(deployment: Deployment, endpoint: Endpoint) -> None:
    answers: list[Answer | RequestRefusedError] = []
    tokens = _tokens_in(LONG_SECONDS, endpoint)

    def long_request() -> None:
        try:
            answers.append(endpoint.ask("Say hello.", max_tokens=tokens, ignore_eos=True))
        except RequestRefusedError as error:
            answers.append(error)

    request = threading.Thread(target=long_request)
    request.start()
    pod = deployment.pods("pd")[0]["metadata"]["name"]
    eventually(lambda: _running(deployment, pod) == 1, what=lambda: "the request never reached the PD worker")
    deployment.kubectl.run("delete", "pod", pod, "--wait=false")
    request.join()
    (answer,) = answers
    assert isinstance(answer, Answer), answer
    assert len(answer.candidates) == tokens
    eventually(lambda: pod not in [p["metadata"]["name"] for p in deployment.pods("pd")], what=deployment.pods)
    eventually(lambda: is_ready(deployment), what=deployment.get)


def _tokens_in(seconds: float, endpoint: Endpoint) -> int:
    """Tokens that the model answers in this time now: on a busy machine the drain could end before a fixed number."""
    started = time.monotonic()
    endpoint.ask("Say hello.", max_tokens=SAMPLE_TOKENS, ignore_eos=True)
    return min(max(SAMPLE_TOKENS, round(SAMPLE_TOKENS * seconds / (time.monotonic() - started))), MAX_TOKENS)


def _running(deployment: Deployment, pod: str) -> float:
    return total(deployment.metrics(pod, port=9090), "vllm:num_requests_running")


def test_a_killed_worker_process_restarts_and_the_status_has_the_reason(
    deployment: Deployment, endpoint: Endpoint
) -> None:
    eventually(lambda: is_ready(deployment), what=deployment.get)
    pod = deployment.pods("encoder")[0]["metadata"]["name"]
    # The status page of the launcher has the process ID.
    status = json.loads(deployment.kubectl.raw(f"/api/v1/namespaces/default/pods/{pod}:9400/proxy/status"))
    (process,) = status["processes"]
    deployment.kubectl.run("exec", pod, "--", "busybox", "kill", "-9", str(process["pid"]))
    eventually(
        lambda: deployment.condition("Ready").get("reason") == "ContainerRestarted",
        what=lambda: deployment.condition("Ready"),
    )
    message = deployment.condition("Ready")["message"]
    assert pod in message
    assert "signal 9" in message or "SIGKILL" in message
    eventually(lambda: is_ready(deployment), what=deployment.get)
    subject = pictures.Subject(colour="yellow", shape="triangle", seed=pictures.UNSEEN + 99)
    eventually(endpoint.models, what=lambda: "the model is not listed again")
    assert endpoint.ask(pictures.QUESTION, image=pictures.data_url(subject)).text == subject.answer


def test_deletion_removes_all_objects(deployment: Deployment) -> None:
    remove(deployment)
    metadata = deployment.kubectl.items("dynamoworkermetadatas.nvidia.com", "-n", deployment.namespace)
    assert [m for m in metadata if m["metadata"]["name"].startswith(deployment.name)] == []


def test_deletion_removes_all_objects_while_the_operator_is_down(
    installation: Installation, other: Deployment, tmp_path: Path
) -> None:
    other.apply(manifest(tmp_path, name=other.name))
    eventually(other.pods, what=other.get)
    installation.kubectl.run("scale", OPERATOR, "-n", SYSTEM_NAMESPACE, "--replicas=0")
    installation.kubectl.run("rollout", "status", OPERATOR, "-n", SYSTEM_NAMESPACE)
    try:
        remove(other)
    finally:
        installation.kubectl.run("scale", OPERATOR, "-n", SYSTEM_NAMESPACE, "--replicas=1")
        installation.kubectl.run("rollout", "status", OPERATOR, "-n", SYSTEM_NAMESPACE, "--timeout=120s")


def test_an_operator_killed_during_a_creation_completes_it_after_its_restart(
    installation: Installation, other: Deployment, tmp_path: Path
) -> None:
    path = manifest(tmp_path, name=other.name)
    kinds = {"Deployment/other-frontend", "Deployment/other-worker", "Service/other"}
    kinds |= {"ServiceAccount/other-discovery", "RoleBinding/other-discovery"}
    kinds |= {"NetworkPolicy/other-pods", "NetworkPolicy/other-frontend"}
    kinds |= {"PodDisruptionBudget/other-frontend", "PodDisruptionBudget/other-worker"}
    kinds |= {"ControllerRevision/other-DIGEST"}

    def children() -> set[str]:
        found = {child for child in other.leftovers() if not child.startswith(("Pod/", "ReplicaSet/"))}
        return {re.sub(r"^(ControllerRevision/.*-)[0-9a-f]{10}$", r"\1DIGEST", child) for child in found}

    other.apply(path)
    installation.kubectl.run(
        "delete", "pod", operator_pod(installation), "-n", SYSTEM_NAMESPACE, "--force", "--grace-period=0"
    )
    eventually(lambda: children() == kinds, what=children)
    eventually(lambda: other.condition("Ready").get("observedGeneration") == 1, what=other.get)


def test_an_image_that_cannot_be_pulled_is_reported(other: Deployment, tmp_path: Path) -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["worker"]["podTemplate"] = {"image": "registry.invalid/none:1"}

    other.apply(manifest(tmp_path, name=other.name, change=change))
    eventually(lambda: other.condition("Ready").get("reason") == "ImagePullFailed", what=other.get)
    assert "registry.invalid/none:1" in other.condition("Ready")["message"]
    assert other.condition("Stalled")["status"] == "False"


def test_gpus_that_no_node_has_are_reported_with_the_message_of_the_scheduler(
    other: Deployment, tmp_path: Path
) -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["worker"]["gpusPerReplica"] = 64

    other.apply(manifest(tmp_path, name=other.name, change=change))
    eventually(lambda: other.condition("Ready").get("reason") == "Unschedulable", what=other.get)
    assert "Insufficient nvidia.com/gpu" in other.condition("Ready")["message"]


def test_a_service_of_another_owner_is_never_changed(
    installation: Installation, other: Deployment, tmp_path: Path
) -> None:
    kubectl = installation.kubectl
    kubectl.run("create", "service", "clusterip", "other", "--tcp=80")
    try:
        other.apply(manifest(tmp_path, name=other.name))
        eventually(lambda: other.condition("Stalled").get("reason") == "NameTaken", what=other.get)
        service = kubectl.get("service", "other")
        assert "ownerReferences" not in service["metadata"]
        assert service["spec"]["ports"][0]["port"] == 80
    finally:
        kubectl.run("delete", "service", "other")


def test_a_recreated_object_gets_new_children(other: Deployment, tmp_path: Path) -> None:
    path = manifest(tmp_path, name=other.name)
    other.apply(path)
    eventually(other.pods, what=other.get)
    first = other.get()
    other.delete()
    other.apply(path)
    second = other.get()
    assert first is not None
    assert second is not None
    assert first["metadata"]["uid"] != second["metadata"]["uid"]

    def owners() -> set[str]:
        found = other.kubectl.items("deployments", "-l", "epd.dev/deployment=other")
        return {d["metadata"]["ownerReferences"][0]["uid"] for d in found}

    eventually(lambda: owners() == {second["metadata"]["uid"]}, what=owners)

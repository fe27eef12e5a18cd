"""Secret values, set wherever a user or a pod can set one, never reach status, Events, metrics or logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import waiting
from support.apiserver import ApiServer
from support.helm import Helm, binary
from support.installed_operator import Operator, apply_rbac, running
from support.specs import raw_spec

ROOT = Path(__file__).parents[2]
SYSTEM = "epd-system"
TEAM = "team-secrets"
CANARY = "canary-7e1d"
"""Prefix of every value that must not be disclosed."""
LITERAL, SHORT_KEY, ARGUMENT = f"{CANARY}-in-a-literal", f"{CANARY}-k", f"{CANARY}-in-an-argument"
STORED = f"{CANARY}-in-a-secret"

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
POLICY: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "gossip"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
            ]
        },
        "validations": [
            {
                "expression": "!object.metadata.name.startsWith('refused-')",
                "messageExpression": "'not with ' + object.spec.template.spec.containers[0].env"
                ".filter(e, has(e.value)).map(e, e.name + '=' + e.value).join(', ') + ' and '"
                " + object.spec.template.spec.containers[0].command.join(' ')",
            }
        ],
    },
}
"""Repeats the object that it refuses, as webhooks may."""
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "gossip"},
    "spec": {"policyName": "gossip", "validationActions": ["Deny"]},
}


def spec() -> dict[str, Any]:
    """A spec with a value in every field that can hold a secret."""
    env = [
        {"name": "WEIGHTS_URL", "value": LITERAL},
        {"name": "API_KEY", "value": SHORT_KEY},
        {"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "credentials", "key": "token"}}},
    ]
    return raw_spec(
        "Aggregated",
        model={
            "name": "Qwen/Qwen3-VL-8B-Instruct", "tokenSecret": {"name": "credentials", "key": "token"},
        },
        runtime={
            "image": "example.test/epd:1", "env": env, "args": [f"--hf-token={ARGUMENT}"],
            "imagePullSecrets": [{"name": "credentials"}],
        },
    )  # fmt: skip


class Team:
    """Acts as a user and as the nodes of a namespace."""

    def __init__(self, server: ApiServer, operator: Operator) -> None:
        self.client = server.client
        self.operator = operator

    def create(self, path: str, body: dict[str, Any]) -> None:
        answer = self.client.create(path, body)
        assert answer.ok, answer.message

    def deploy(self, name: str, wanted: dict[str, Any]) -> None:
        body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": name}, "spec": wanted}
        self.create(f"/apis/epd.dev/v1alpha1/namespaces/{TEAM}/epddeployments", body)

    def status(self, name: str) -> str:
        path = f"/apis/epd.dev/v1alpha1/namespaces/{TEAM}/epddeployments/{name}"
        return json.dumps(self.client.get(path).body.get("status"))

    def events(self) -> str:
        return json.dumps(self.client.get(f"/apis/events.k8s.io/v1/namespaces/{TEAM}/events").body["items"])

    def pods(self) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{TEAM}/pods?labelSelector=app.kubernetes.io/component%3Dworker"
        return list(self.client.get(path).body["items"])

    def report(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        path = f"/api/v1/namespaces/{TEAM}/pods/{pod['metadata']['name']}/status"
        content_type = "application/strategic-merge-patch+json"
        answer = self.client.request("PATCH", path, {"status": status}, content_type=content_type)
        assert answer.ok, answer.message

    def wait(self, what: str, holds: Callable[[], object]) -> None:
        waiting.wait_for(what, holds, check=self.operator.require_alive)

    def reported(self) -> str:
        """Everything that the operator reports."""
        with urllib.request.urlopen(self.operator.metrics_url, timeout=30) as page:
            metrics = page.read().decode()
        return "\n".join([self.status("crashing"), self.status("refused"), self.events(), metrics, self.log()])

    def log(self) -> str:
        return self.operator.log.read_text(errors="replace")


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with ApiServer(folder=tmp_path_factory.mktemp("server"), with_controllers=True) as server:
        server.install_crds(ROOT / "crds")
        for name in (SYSTEM, TEAM):
            assert server.client.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok
        chart = Helm(program=binary("helm"), major=3, home=tmp_path_factory.mktemp("helm")).template()
        apply_rbac(server, chart)
        folder = tmp_path_factory.mktemp("operator")
        with running(server, folder=folder, chart=chart, arguments=["--log-level=DEBUG"]) as operator:
            made = Team(server, operator)
            secret = {"metadata": {"name": "credentials"}, "stringData": {"token": STORED}}
            made.create(f"/api/v1/namespaces/{TEAM}/secrets", secret)
            made.create(POLICIES, POLICY)
            made.create(f"{POLICIES.removesuffix('policies')}policybindings", BINDING)
            yield made


def ended(message: str) -> dict[str, Any]:
    moment = "2026-11-29T12:00:00Z"
    return {"exitCode": 1, "reason": "Error", "message": message, "startedAt": moment, "finishedAt": moment}


def test_termination_messages_and_refusals_are_reported_without_secret_values(team: Team) -> None:
    team.deploy("crashing", spec())
    team.wait("pods", lambda: len(team.pods()) == 2)
    text = f"login with {LITERAL} and {SHORT_KEY} failed; {ARGUMENT} too: \x1b[2J401"
    container = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 3}
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off; env {LITERAL}"}}
    crash = {**container, "state": state, "lastState": {"terminated": ended(text)}}
    for pod in team.pods():
        scheduled = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
        team.report(pod, {"phase": "Running", "conditions": scheduled, "containerStatuses": [crash]})
    # The message is reported, with names in place of the values.
    team.wait("the termination message", lambda: "[value of WEIGHTS_URL]" in team.status("crashing"))
    assert "[value of API_KEY]" in team.status("crashing")
    assert "[value of --hf-token]" in team.status("crashing")

    team.deploy("refused", spec())
    # The policy takes effect some time after its creation.
    team.wait("an answer", lambda: "not with" in team.status("refused") or _retry_creation(team))
    team.wait("an Event", lambda: "not with" in team.events() and "CrashLooping" in team.events())
    reported = team.reported()
    # The reports cover these objects: the log has the name of the namespace.
    assert "team-secrets" in team.log()
    assert CANARY not in reported, [line for line in reported.splitlines() if CANARY in line][:5]
    assert "\\u001b" not in team.status("crashing")


def _retry_creation(team: Team) -> bool:
    """Delete a Deployment from before the policy took effect, so that it is created again; always False."""
    path = f"/apis/apps/v1/namespaces/{TEAM}/deployments/refused-worker"
    team.client.request("DELETE", path)
    return False


@pytest.mark.parametrize(
    "url", [f"http://user:{CANARY}@prometheus:9090", f"http://prometheus:9090/?token={CANARY}", f"{CANARY}@x"]
)
def test_credentials_in_the_address_of_a_server_are_refused_and_not_repeated(url: str) -> None:
    command = [sys.executable, "-m", "epd_operator", f"--prometheus-url={url}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "operator" / "src")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert CANARY not in done.stdout + done.stderr

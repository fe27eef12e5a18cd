"""The chart's admission policies on a real API server, and the warnings that it gives for an object."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from epd_operator.api.v1alpha1.epddeployment import GROUP, PLURAL, VERSION
from support.apiserver import ApiServer
from support.bad_objects import deployment
from support.client import APPLY, Answer, Client
from support.helm import Helm

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
ACCEPTED = "epd.dev/accepted-warnings"
MESSAGE = re.compile(r"^Validation failed for ValidatingAdmissionPolicy '(.+?)' with binding '(.+?)': (.*)$", re.DOTALL)
NAMED = re.compile(r"^'(\w+)(: )?'")

Object = dict[str, Any]

BIG = {"limits": {"memory": "256Gi"}}
QUIET = {
    "frontend.replicas": 2,
    "model": {"name": "/models/qwen", "servedName": "qwen-vl", "storage": {"claimName": "models"}},
}
"""Changes to the small valid spec that avoid all warnings, except those about resources of stages."""
STAGES = {"Aggregated": ("worker",), "CoLocated": ("group",), "Disaggregated": ("encoder", "pd")}


@dataclass(frozen=True, kw_only=True)
class PolicyWarning:
    """A warning of a policy.

    Attributes:
        policy: name of the policy.
        name: of the rule.
        text: message of the rule.
        whole: the message with the API server's text before it.
    """

    policy: str
    name: str
    text: str
    whole: str


def policies(helm: Helm, *arguments: str, release: str = "epd-operator") -> list[Object]:
    """The policies and bindings about EPDDeployments that the chart renders."""
    return [found for found in _all_policies(helm, *arguments, release=release) if not _is_about_records(found)]


def policies_about_records(helm: Helm, *arguments: str) -> list[Object]:
    """The policy and binding about discovery records that the chart renders."""
    return [found for found in _all_policies(helm, *arguments) if _is_about_records(found)]


def _all_policies(helm: Helm, *arguments: str, release: str = "epd-operator") -> list[Object]:
    return [found for found in helm.template(*arguments, release=release) if found["kind"] in PLURALS]


def _is_about_records(document: Object) -> bool:
    return str(document["metadata"]["name"]).endswith("-records")


def names(policy: Object) -> list[str]:
    """Names of the rules of a policy."""
    found = (NAMED.match(rule["messageExpression"]) for rule in policy["spec"]["validations"])
    return [match[1] for match in found if match]


def install(server: ApiServer, documents: Iterable[Object], *, namespace: str = "default") -> None:
    """Create policies and bindings, and wait until they are in effect in the namespace."""
    for document in documents:
        answer = server.client.create(f"{REGISTRATION}/{PLURALS[document['kind']]}", document)
        assert answer.ok, answer.message
    for document in documents:
        if document["kind"] == "ValidatingAdmissionPolicyBinding":
            await_effect(server, document["spec"], namespace=namespace)


def await_effect(server: ApiServer, binding: Object, *, namespace: str) -> None:
    """Wait until the policy is in effect for an object that violates it. Of several denials, the server reports one."""
    policy, denies = binding["policyName"], binding["validationActions"] == ["Deny"]
    probe = deployment("CoLocated", changes={"frontend.mediaDecoding": "Frontend", "transfer.ucx.transports": ["sm"]})

    def in_effect() -> bool:
        answer = server.client.create(collection(namespace), probe, dry_run=True)
        return "denied request" in answer.message if denies else bool(warnings(answer, policy=policy))

    server.wait_for(f"policy {policy} in effect", in_effect)


def collection(namespace: str = "default") -> str:
    """Path of the EPDDeployments of a namespace."""
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"


def quiet(
    topology: str = "Disaggregated", changes: dict[str, Any] | None = None, *, name: str = "qwen", accepted: str = ""
) -> Object:
    """An object that gives no warning, with changes."""
    limits = {f"{stage}.resources": BIG for stage in STAGES[topology]}
    found = deployment(topology, changes=copy.deepcopy({**QUIET, **limits, **(changes or {})}), name=name)
    if accepted:
        found["metadata"]["annotations"] = {ACCEPTED: accepted}
    return found


def apply(client: Client, body: Object, *, namespace: str = "default", dry_run: bool = False) -> Answer:
    """Server-side apply of an object."""
    path = f"{collection(namespace)}/{body['metadata']['name']}?fieldManager=tests&force=true&fieldValidation=Strict"
    return client.request("PATCH", path + ("&dryRun=All" if dry_run else ""), body, content_type=APPLY)


def warnings(answer: Answer, *, policy: str | None = None) -> list[PolicyWarning]:
    """The warnings of policies, or of one policy if given."""
    found = []
    for header in answer.warnings:
        whole = header.partition(' - "')[2].removesuffix('"').replace('\\"', '"')
        match = MESSAGE.match(whole)
        if match and policy in (None, match[1]):
            found.append(PolicyWarning(policy=match[1], name=match[3].partition(":")[0], text=match[3], whole=whole))
    return found


def named(answer: Answer) -> list[str]:
    """Names of the warnings, in the order of the answer."""
    return [warning.name for warning in warnings(answer)]


def strict(documents: Sequence[Object], *, namespace: str, prefix: str) -> list[Object]:
    """Copies of policies with other names, for one namespace: they only warn, also about every failing expression."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    found = copy.deepcopy(list(documents))
    for document in found:
        document["metadata"]["name"] = prefix + document["metadata"]["name"]
        if document["kind"] == "ValidatingAdmissionPolicy":
            document["spec"]["failurePolicy"] = "Fail"
        else:
            document["spec"]["policyName"] = prefix + document["spec"]["policyName"]
            document["spec"]["validationActions"] = ["Warn"]
            document["spec"]["matchResources"] = {"namespaceSelector": selector}
    return found

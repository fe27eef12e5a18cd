"""MutatingAdmissionPolicies, as a policy engine of another team would add them, on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from epd_operator.objects.identity import Identity
from epd_operator.objects.kinds import Kind
from epd_operator.plan.observation import Observation
from epd_operator.plan.planner import make_plan
from support.operated import World
from support.specs import spec

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
MARK = "policy.example.com/mutated"
_ON_ALL = ("CREATE", "UPDATE")


def setting(path: str, value: object) -> str:
    """A JSON patch in CEL that sets a field; a value that starts with ``=`` is a CEL expression."""
    is_expression = isinstance(value, str) and value.startswith("=")
    text = str(value)[1:] if is_expression else json.dumps(value)
    return f'[JSONPatch{{op: "add", path: "{path}", value: {text}}}]'


@contextmanager
def mutating(world: World, kind: Kind, patch: str, *, operations: Sequence[str] = _ON_ALL) -> Iterator[None]:
    """A policy that changes all objects of a kind in the world's namespace, until the block ends."""
    client, name = world.server.client, f"{world.namespace}-{kind.plural}"
    group, _, version = kind.api_version.rpartition("/")
    rule = {"apiGroups": [group], "apiVersions": [version], "resources": [kind.plural], "operations": list(operations)}
    mark = f'Object{{metadata: Object.metadata{{annotations: {{"{MARK}": "yes"}}}}}}'
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    policy: dict[str, Any] = {
        **head,
        "kind": "MutatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "reinvocationPolicy": "Never",
            "failurePolicy": "Fail",
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": mark}},
                {"patchType": "JSONPatch", "jsonPatch": {"expression": patch}},
            ],
        },
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    binding = {**head, "kind": "MutatingAdmissionPolicyBinding"}
    binding["spec"] = {"policyName": name, "matchResources": {"namespaceSelector": selector}}
    plurals = {"mutatingadmissionpolicies": policy, "mutatingadmissionpolicybindings": binding}
    for plural, body in plurals.items():
        answer = client.create(f"{REGISTRATION}/{plural}", body)
        assert answer.ok, answer.message
    try:
        world.server.wait_for(f"policy {name} in effect", lambda: _acts(world, kind))
        yield
    finally:
        for plural in plurals:
            assert client.request("DELETE", f"{REGISTRATION}/{plural}/{name}").ok
        world.server.wait_for(f"policy {name} gone", lambda: not _acts(world, kind))


def _acts(world: World, kind: Kind) -> bool:
    """Whether the policy changes a new object of the kind."""
    observation = Observation(identity=Identity(name="probe", namespace=world.namespace, uid="u"), generation=1)
    worker = {"pool": "gb200", "autoscaling": {"mode": "External", "maxReplicas": 3}}
    children = make_plan(spec("Aggregated", worker=worker), observation=observation).children
    body = next(child for child in children if child["kind"] == kind.kind)
    body["metadata"].pop("ownerReferences")
    answer = world.server.client.create(kind.path(namespace=world.namespace), body, dry_run=True)
    return MARK in answer.body.get("metadata", {}).get("annotations", {})

"""A ResourceClaimTemplate for each deployment: a dummy, to count what a new kind of child touches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from epd_operator.objects.kinds import Kind
from epd_operator.plan.children.child_kind import ChildContext, ChildKind
from epd_operator.plan.drift import DriftRules


def _claim_templates(context: ChildContext) -> Iterator[dict[str, Any]]:
    identity = context.identity
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": identity.metadata(f"{identity.name}-gpu"),
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


CLAIM_TEMPLATES = ChildKind(
    kind=Kind(kind="ResourceClaimTemplate", api_version="resource.k8s.io/v1", plural="resourceclaimtemplates"),
    build=_claim_templates,
    purpose="the claim from which pods get shared GPUs",
    absence="processes cannot share a GPU by DRA",
    drift=DriftRules(immutable_field="spec"),
    # Never changed or deleted by the operator: it is the same for every spec.
    verbs=("get", "list", "watch", "create", "patch"),
    optional=True,
)

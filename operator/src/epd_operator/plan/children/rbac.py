"""The rights of the pods at the API server: to discover each other, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from epd_operator.objects.kinds import ROLE_BINDING, SERVICE_ACCOUNT
from epd_operator.plan.children.child_kind import ChildContext, ChildKind
from epd_operator.plan.drift import DriftRules


def _service_account(context: ChildContext) -> Iterator[dict[str, Any]]:
    """The account that the pods run as."""
    yield {
        "apiVersion": SERVICE_ACCOUNT.api_version,
        "kind": SERVICE_ACCOUNT.kind,
        "metadata": context.identity.metadata(context.identity.account_name),
    }


def _role_binding(context: ChildContext) -> Iterator[dict[str, Any]]:
    """The right to use Dynamo's discovery in the namespace of the pods."""
    identity = context.identity
    yield {
        "apiVersion": ROLE_BINDING.api_version,
        "kind": ROLE_BINDING.kind,
        "metadata": identity.metadata(identity.account_name),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": context.settings.worker_role,
        },
        "subjects": [
            {"kind": "ServiceAccount", "name": identity.account_name, "namespace": identity.namespace},
        ],
    }


SERVICE_ACCOUNTS = ChildKind(
    kind=SERVICE_ACCOUNT,
    build=_service_account,
    purpose="the account that the pods run as",
    absence="no pods can be created",
    # Without a token the pods do not discover each other.
    drift=DriftRules(closed_fields=frozenset({"automountServiceAccountToken"})),
    # No right to delete, because the operator never deletes it: it exists in every topology.
    verbs=("get", "list", "watch", "create", "patch"),
)

ROLE_BINDINGS = ChildKind(
    kind=ROLE_BINDING,
    build=_role_binding,
    purpose="the right of the pods to discover each other",
    absence="new pods do not discover each other",
    drift=DriftRules(immutable_field="roleRef"),
    optional=True,
)

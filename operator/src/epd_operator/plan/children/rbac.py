"""What the pods may do at the API server: find each other, and nothing else."""

from __future__ import annotations

from typing import Any

from epd_operator.objects.identity import Identity


def service_account(*, identity: Identity) -> dict[str, Any]:
    """The identity of the pods."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": identity.metadata(identity.account_name),
    }


def role_binding(*, identity: Identity, role: str) -> dict[str, Any]:
    """Lets the pods use Dynamo's discovery in their own namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": identity.metadata(identity.account_name),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role,
        },
        "subjects": [
            {"kind": "ServiceAccount", "name": identity.account_name, "namespace": identity.namespace},
        ],
    }

"""What protects pods: from strangers on the network, and from drains that take too many of them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from epd_operator.api.v1alpha1.base import ApiModel


class Management(StrEnum):
    """Who makes the objects."""

    MANAGED = "Managed"
    UNMANAGED = "Unmanaged"


class NetworkPolicy(ApiModel):
    """Who may connect to the pods."""

    mode: Management = Field(
        default=Management.MANAGED,
        description="Managed: the pods take connections only from pods of the same EPDDeployment; frontends take them "
        "from everybody, on their HTTP port; metrics can be read by all pods of the cluster. NetworkPolicies of your "
        "own allow more. Unmanaged: the operator makes none.",
    )


class DisruptionBudget(ApiModel):
    """How many pods a drain of nodes may take at a time."""

    mode: Management = Field(
        default=Management.MANAGED,
        description="Managed: a quarter of each stage's pods, rounded up. Unmanaged: the operator makes no "
        "PodDisruptionBudgets; Kubernetes evicts no pod that two of them select, so choose it before you make your "
        "own.",
    )

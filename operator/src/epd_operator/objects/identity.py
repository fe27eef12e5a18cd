"""Identity of an EPDDeployment: its key, the names and labels of its children, and who owns an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epd_operator.api.v1alpha1.epddeployment import API_VERSION, KIND
from epd_operator.api.v1alpha1.topology import StageName


@dataclass(frozen=True, order=True)
class Key:
    """Namespace and name of an EPDDeployment."""

    namespace: str
    name: str


MANAGED_BY = "epd-operator"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
DEPLOYMENT_LABEL = "epd.dev/deployment"
COMPONENT_LABEL = "app.kubernetes.io/component"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Name, namespace and incarnation of one EPDDeployment."""

    name: str
    namespace: str
    uid: str

    @property
    def dynamo_namespace(self) -> str:
        """Namespace inside Dynamo: frontends and workers of one deployment see each other and nobody else."""
        return f"{self.namespace}-{self.name}"

    @property
    def service_name(self) -> str:
        """Name of the Service in front of the frontends."""
        return self.name

    @property
    def account_name(self) -> str:
        """Name of the pods' ServiceAccount and of its RoleBinding."""
        return f"{self.name}-discovery"

    @property
    def policy_name(self) -> str:
        """Name of the NetworkPolicy of all pods."""
        return f"{self.name}-pods"

    def child_name(self, stage: StageName) -> str:
        """Name of a stage's Deployment, and of what else a stage has one of."""
        return f"{self.name}-{stage}"

    def selector(self, stage: StageName) -> dict[str, str]:
        """Labels that select a stage's pods; they never change during the life of the object."""
        return {DEPLOYMENT_LABEL: self.name, COMPONENT_LABEL: stage}

    def labels(self, stage: StageName | None = None) -> dict[str, str]:
        """Labels of a child, and of the pods of a stage."""
        labels = {
            "app.kubernetes.io/name": "epd",
            "app.kubernetes.io/instance": self.name,
            MANAGED_BY_LABEL: MANAGED_BY,
            DEPLOYMENT_LABEL: self.name,
        }
        if stage is not None:
            labels[COMPONENT_LABEL] = stage
        return labels

    @property
    def owner_reference(self) -> dict[str, object]:
        """Makes the garbage collector remove children with their owner, with the operator up or down."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def metadata(self, name: str, stage: StageName | None = None) -> dict[str, object]:
        """Metadata of a child."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels(stage),
            "ownerReferences": [self.owner_reference],
        }


def controller_of(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of the object's controller, or None. The API server accepts at most one."""
    references = found["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def controller_uid(child: Mapping[str, Any]) -> str | None:
    """The uid of the object's controller, or None."""
    controller = controller_of(child)
    return None if controller is None else str(controller["uid"])

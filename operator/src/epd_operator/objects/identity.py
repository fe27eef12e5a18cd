"""Identity of an EPDDeployment and its stages: keys, names and labels of children, and the owner of an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epd_operator.api.v1alpha1.epddeployment import API_VERSION, KIND
from epd_operator.api.v1alpha1.topology import StageName

MANAGED_BY = "epd-operator"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
DEPLOYMENT_LABEL = "epd.dev/deployment"
COMPONENT_LABEL = "app.kubernetes.io/component"
REVISION_LABEL = "epd.dev/revision"

SOLE_REVISION = ""
"""The only revision of an object. Its children have no suffix in their names and no revision label."""


@dataclass(frozen=True, order=True)
class Key:
    """Namespace and name of an EPDDeployment."""

    namespace: str
    name: str


@dataclass(frozen=True, order=True)
class StageKey:
    """One stage of one revision of an EPDDeployment."""

    name: StageName
    revision: str = SOLE_REVISION

    def __str__(self) -> str:
        """The stage in messages and in the names of its children."""
        return "-".join(filter(None, (self.name, self.revision)))


def all_stages(revision: str = SOLE_REVISION) -> tuple[StageKey, ...]:
    """Every stage that a revision could have, in the order in which a request reaches them."""
    return tuple(StageKey(name, revision) for name in StageName)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Name, namespace and uid of one EPDDeployment. Another object of the same name has another uid."""

    name: str
    namespace: str
    uid: str

    def dynamo_namespace(self, revision: str) -> str:
        """Dynamo namespace: processes of one revision of one deployment discover only each other."""
        return "-".join(filter(None, (self.namespace, self.name, revision)))

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

    def child_name(self, stage: StageKey) -> str:
        """Name of a stage's Deployment, and of its other children: a stage has at most one of each kind."""
        return f"{self.name}-{stage}"

    def selector(self, stage: StageKey) -> dict[str, str]:
        """Labels that select a stage's pods; they never change during the life of the object."""
        selector = {DEPLOYMENT_LABEL: self.name, COMPONENT_LABEL: stage.name.value}
        return {**selector, REVISION_LABEL: stage.revision} if stage.revision else selector

    def labels(self, stage: StageKey | None = None) -> dict[str, str]:
        """Labels of a child, and of the pods of a stage."""
        labels = {
            "app.kubernetes.io/name": "epd",
            "app.kubernetes.io/instance": self.name,
            MANAGED_BY_LABEL: MANAGED_BY,
            DEPLOYMENT_LABEL: self.name,
        }
        return labels if stage is None else {**labels, **self.selector(stage)}

    @property
    def owner_reference(self) -> dict[str, object]:
        """The owner reference of children: the garbage collector removes them with their owner."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def metadata(self, name: str, stage: StageKey | None = None) -> dict[str, object]:
        """Metadata of a child."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels(stage),
            "ownerReferences": [self.owner_reference],
        }


def stage_of(found: Mapping[str, Any]) -> tuple[str | None, str]:
    """Stage name and revision in the labels of a child or pod; the name is None if there is no such label."""
    labels = found["metadata"].get("labels") or {}
    return labels.get(COMPONENT_LABEL), labels.get(REVISION_LABEL, SOLE_REVISION)


def controller_of(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of the object's controller, or None. The API server accepts at most one."""
    references = found["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def controller_uid(child: Mapping[str, Any]) -> str | None:
    """The uid of the object's controller, or None."""
    controller = controller_of(child)
    return None if controller is None else str(controller["uid"])

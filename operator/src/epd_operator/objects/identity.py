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

INITIAL_REVISION = ""
"""The first revision of an object. Its Deployments have no suffix in their names."""
INITIAL_REVISION_LABEL = "initial"
"""Value of the revision label of its pods. Pods that an operator before revisions has created have no such label."""


@dataclass(frozen=True, order=True)
class Key:
    """Namespace and name of an EPDDeployment."""

    namespace: str
    name: str


@dataclass(frozen=True, order=True)
class StageKey:
    """One stage of one revision of an EPDDeployment."""

    name: StageName
    revision: str = INITIAL_REVISION

    def __str__(self) -> str:
        """The stage in messages and in the names of its children."""
        return "-".join(filter(None, (self.name, self.revision)))


def all_stages(revision: str = INITIAL_REVISION) -> tuple[StageKey, ...]:
    """Every stage that a revision could have, in the order in which a request reaches them."""
    return tuple(StageKey(name, revision) for name in StageName)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Name, namespace and uid of one EPDDeployment. Another object of the same name has another uid."""

    name: str
    namespace: str
    uid: str

    def dynamo_namespace(self, revision: str) -> str:
        """Dynamo namespace: processes of one revision of one deployment discover only each other.

        Names of objects contain no underscore, so no other deployment can have the same.
        """
        return "_".join(filter(None, (f"{self.namespace}-{self.name}", revision)))

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

    def workload_name(self, stage: StageKey) -> str:
        """Name of the Deployment of a stage of one revision."""
        return f"{self.name}-{stage}"

    def stage_of_workload(self, name: str) -> StageKey | None:
        """The stage of one revision whose Deployment has this name; None for other names."""
        for stage in StageName:
            rest = name.removeprefix(f"{self.stage_name(stage)}")
            if rest != name and (not rest or rest.startswith("-")):
                return StageKey(stage, rest[1:])
        return None

    def stage_name(self, stage: StageName) -> str:
        """Name of the children that a stage has once, for all revisions together."""
        return f"{self.name}-{stage}"

    def workload_selector(self, stage: StageKey) -> dict[str, str]:
        """Selector of the Deployment of a stage, which is immutable: that of the first revision names no revision.

        It includes pods of other revisions. That is harmless: a Deployment only has the pods of its own ReplicaSets.
        """
        return self.revision_selector(stage) if stage.revision else self.stage_selector(stage.name)

    def stage_selector(self, stage: StageName) -> dict[str, str]:
        """Labels that select the pods of a stage, of all revisions."""
        return {DEPLOYMENT_LABEL: self.name, COMPONENT_LABEL: stage.value}

    def revision_selector(self, stage: StageKey) -> dict[str, str]:
        """Labels that select the pods of a stage of one revision."""
        return {**self.stage_selector(stage.name), REVISION_LABEL: revision_label(stage.revision)}

    def labels(self, stage: StageName | None = None) -> dict[str, str]:
        """Labels of a child."""
        labels = {
            "app.kubernetes.io/name": "epd",
            "app.kubernetes.io/instance": self.name,
            MANAGED_BY_LABEL: MANAGED_BY,
            DEPLOYMENT_LABEL: self.name,
        }
        return labels if stage is None else {**labels, **self.stage_selector(stage)}

    def workload_labels(self, stage: StageKey) -> dict[str, str]:
        """Labels of the Deployment of a stage of one revision, and of its pods."""
        return {**self.labels(), **self.revision_selector(stage)}

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

    def metadata(self, name: str, *, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Metadata of a child; ``labels`` are those of all children if None."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels() if labels is None else dict(labels),
            "ownerReferences": [self.owner_reference],
        }


def stage_of(found: Mapping[str, Any]) -> tuple[str | None, str]:
    """Stage name and revision in the labels of a child or pod; the name is None if there is no such label."""
    labels = found["metadata"].get("labels") or {}
    return labels.get(COMPONENT_LABEL), revision_in(labels)


def revision_label(revision: str) -> str:
    """The name of a revision for users, and the value of the label of its pods."""
    return revision or INITIAL_REVISION_LABEL


def revision_in(labels: Mapping[str, Any]) -> str:
    """The revision that labels, or the selector of a Service, name."""
    revision = str(labels.get(REVISION_LABEL) or INITIAL_REVISION)
    return INITIAL_REVISION if revision == INITIAL_REVISION_LABEL else revision


def controller_of(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of the object's controller, or None. The API server accepts at most one."""
    references = found["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def controller_uid(child: Mapping[str, Any]) -> str | None:
    """The uid of the object's controller, or None."""
    controller = controller_of(child)
    return None if controller is None else str(controller["uid"])

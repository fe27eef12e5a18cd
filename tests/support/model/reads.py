"""What the operator has read in one reconcile: its decisions are judged by this, not by what has happened meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epd_operator.objects.identity import REVISION_LABEL
from epd_operator.objects.kinds import EPD_DEPLOYMENT
from epd_operator.plan.observation import ChildKey
from epd_operator.plan.rollout.history import HAS_SERVED
from support.model.cluster import ModelCluster
from support.model.specs import STAGES, TOPOLOGY_OF
from support.model.store import Object

NAME = "qwen"
PRIMARY = ChildKey(EPD_DEPLOYMENT.kind, NAME)


class Reads:
    """The last reads of a client of the store."""

    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster = cluster

    def spec(self) -> Mapping[str, Any]:
        """The spec that the operator has read in this reconcile."""
        spec: Mapping[str, Any] = self._cluster.reads[PRIMARY]["spec"]
        return spec

    def workloads(self, revision: str) -> list[Object]:
        """The Deployments of a revision that the operator has read in this reconcile."""
        return [
            found
            for key, found in self._cluster.reads.items()
            if key.kind == "Deployment" and found["metadata"]["labels"].get(REVISION_LABEL) == revision
        ]

    def is_complete(self, revision: str) -> bool:
        """Whether the operator has read that all pods of a revision are ready."""
        found = self.workloads(revision)
        return bool(found) and all(
            item["status"].get("observedGeneration") == item["metadata"]["generation"]
            and item["status"]["readyReplicas"] >= item["spec"]["replicas"]
            for item in found
        )

    def has_served(self, revision: str) -> bool:
        """Whether the operator knows that a revision has answered requests."""
        found = self.workloads(revision)
        stages = {item["metadata"]["name"].split("-")[1] for item in found}
        is_whole = "frontend" in stages and any(stages.issuperset(wanted) for wanted in STAGES.values())
        is_available = is_whole and all(item.get("status", {}).get("readyReplicas") for item in found)
        return is_available or self.is_recorded(revision, HAS_SERVED)

    def is_known(self) -> bool:
        """Whether the operator can know that the pods have another spec: by a record, or by their topology."""
        kinds = {key.kind for key in self._cluster.reads}
        stages = {stage for stage, topology in TOPOLOGY_OF.items() if topology != self.spec()["topology"]}
        others = any(key.kind == "Deployment" and key.name.split("-")[1] in stages for key in self._cluster.reads)
        return "ControllerRevision" in kinds or others

    def is_recorded(self, revision: str, annotation: str) -> bool:
        """Whether a record that the operator has read has an annotation."""
        return any(
            annotation in found["metadata"].get("annotations", {})
            for key, found in self._cluster.reads.items()
            if key.kind == "ControllerRevision" and found["metadata"]["labels"].get(REVISION_LABEL) == revision
        )


def annotations_of(found: Object) -> Mapping[str, Any]:
    """Its annotations."""
    found_annotations: Mapping[str, Any] = found["metadata"].get("annotations", {})
    return found_annotations


def pod_spec_text(deployment: Object) -> str:
    """The spec of its pods, to search in."""
    return str(deployment["spec"]["template"]["spec"])


def image_of(deployment: Object) -> str:
    """The image of its pods."""
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def revision_of(deployment: Object) -> str:
    """The revision label of a Deployment."""
    return str(deployment["metadata"]["labels"][REVISION_LABEL])

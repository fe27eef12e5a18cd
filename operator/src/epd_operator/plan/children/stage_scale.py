"""The scale object of a stage that an external autoscaler drives."""

from __future__ import annotations

from typing import Any

from epd_operator.api.v1alpha1.epddeployment import API_VERSION
from epd_operator.api.v1alpha1.epdstagescale import SCALE_KIND
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import Identity


def stage_scale(*, identity: Identity, stage: StageName) -> dict[str, Any]:
    """The object without replicas: those belong to the autoscaler."""
    return {
        "apiVersion": API_VERSION,
        "kind": SCALE_KIND,
        "metadata": identity.metadata(identity.child_name(stage), stage),
    }


def seed(scale: dict[str, Any], *, replicas: int) -> dict[str, Any]:
    """What the object begins with. An autoscaler that reads 0 replicas would never act."""
    metadata = {key: scale["metadata"][key] for key in ("name", "namespace", "ownerReferences")}
    return {**scale, "metadata": metadata, "spec": {"replicas": replicas}}


def scale_status(*, identity: Identity, stage: StageName, pods: int) -> dict[str, Any]:
    """What autoscalers read: how many pods there are, and which."""
    selector = ",".join(f"{name}={value}" for name, value in sorted(identity.selector(stage).items()))
    return {"replicas": pods, "selector": selector}

"""The Deployment of a stage."""

from __future__ import annotations

from typing import Any

from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec
from epd_operator.objects.identity import Identity, controller_of
from epd_operator.plan.stages.stage_plan import StagePlan

_PROGRESS_MARGIN_SECONDS = 600
"""For scheduling and image pulls, on top of the time a process may take to load its model."""


def deployment(spec: EPDDeploymentSpec, *, identity: Identity, stage: StagePlan) -> dict[str, Any]:
    """A stage's pods as a Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": identity.metadata(identity.child_name(stage.name), stage.name),
        "spec": {
            "replicas": stage.replicas,
            "revisionHistoryLimit": 3,
            "progressDeadlineSeconds": spec.runtime.startup_timeout_seconds + _PROGRESS_MARGIN_SECONDS,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "selector": {"matchLabels": identity.selector(stage.name)},
            "template": stage.pod_template,
        },
    }


def workload_of(pod: dict[str, Any]) -> str | None:
    """Name of the Deployment that the pod belongs to, or None.

    Labels alone are no proof: whoever may create pods may set them. A pod that names a ReplicaSet as its controller is
    one of its pods to Kubernetes too, or is removed by the garbage collector where no such ReplicaSet exists.
    """
    controller = controller_of(pod)
    if controller is None or (controller["apiVersion"], controller["kind"]) != ("apps/v1", "ReplicaSet"):
        return None
    workload, separator, revision = str(controller["name"]).rpartition("-")
    template = (pod["metadata"].get("labels") or {}).get("pod-template-hash")
    return workload if separator and revision == template else None

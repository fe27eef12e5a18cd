"""The Deployment of a stage."""

from __future__ import annotations

from typing import Any

from epd_operator.api.v1alpha1.deployment import EPDDeploymentSpec
from epd_operator.plan.identity import Identity
from epd_operator.plan.stages.model import StagePlan

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

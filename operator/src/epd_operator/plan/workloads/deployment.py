"""The Deployment of a stage."""

from __future__ import annotations

from typing import Any

from epd_operator.objects.identity import Identity
from epd_operator.objects.kinds import DEPLOYMENT
from epd_operator.plan.stages.stage_plan import StagePlan

_PROGRESS_MARGIN_SECONDS = 600
"""Time for scheduling and image pulls, in addition to ``runtime.startupTimeoutSeconds``."""


def deployment(stage: StagePlan, *, identity: Identity, startup_timeout_seconds: int) -> dict[str, Any]:
    """The pods of a stage as a Deployment."""
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": identity.metadata(identity.child_name(stage.key), stage.key),
        "spec": {
            "replicas": stage.replicas,
            "revisionHistoryLimit": 3,
            "progressDeadlineSeconds": startup_timeout_seconds + _PROGRESS_MARGIN_SECONDS,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": stage.rollout.model_dump(by_alias=True)},
            "selector": {"matchLabels": identity.selector(stage.key)},
            "template": stage.pod_template,
        },
    }

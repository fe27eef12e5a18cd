"""The Deployment of a stage."""

from __future__ import annotations

from typing import Any

from epd_operator.objects.identity import Identity
from epd_operator.objects.kinds import DEPLOYMENT
from epd_operator.plan.replicas import DRAINED_FROM
from epd_operator.plan.stages.stage_plan import StagePlan


def deployment(stage: StagePlan, *, identity: Identity) -> dict[str, Any]:
    """The pods of a stage as a Deployment."""
    paused = {"paused": True} if stage.paused else {}
    metadata = identity.metadata(identity.workload_name(stage.key), labels=identity.workload_labels(stage.key))
    if stage.drained_from is not None:
        metadata["annotations"] = {DRAINED_FROM: str(stage.drained_from)}
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": metadata,
        "spec": {
            "replicas": stage.replicas,
            **paused,
            "revisionHistoryLimit": 3,
            "progressDeadlineSeconds": stage.progress_deadline_seconds,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": stage.rollout.model_dump(by_alias=True)},
            "selector": {"matchLabels": identity.workload_selector(stage.key)},
            "template": stage.pod_template,
        },
    }

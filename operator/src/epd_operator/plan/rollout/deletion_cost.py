"""Deletion cost: when a stage is scaled down, Kubernetes deletes its least busy pods first.

The ReplicaSet controller deletes pods that are not ready first, then those with the lowest deletion cost
(https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost). The cost is written only just
before a stage is scaled down: a cost that follows the load would cause writes at every reconcile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from epd_operator.objects.pods import is_live
from epd_operator.plan.observation import KubernetesObject, Observation
from epd_operator.plan.stages.stage_plan import StagePlan
from epd_operator.plan.workloads.progress import progress_of

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def deletion_costs(stage: StagePlan, *, observation: Observation) -> Iterator[dict[str, Any]]:
    """Pods of a stage that is scaled down now, with the number of their requests as cost, if it differs.

    Nothing for a stage that loses all its pods. Pods that are terminating or have ended are skipped. Pods whose load is
    unknown are skipped too, and keep their cost, which is 0 at first.
    """
    if not stage.replicas or progress_of(observation.deployment_of(stage.key)).desired <= stage.replicas:
        return
    for pod in observation.pods_of(stage.key):
        requests = observation.loads.get(str(pod["metadata"]["name"]))
        if requests is None or not is_live(pod):
            continue
        cost = str(round(requests))
        if _cost(pod) != cost:
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    **{key: pod["metadata"][key] for key in ("name", "namespace", "uid")},
                    "annotations": {DELETION_COST: cost},
                },
            }


def _cost(pod: KubernetesObject) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0"))

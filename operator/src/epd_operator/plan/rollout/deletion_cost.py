"""Which pods go when a stage shrinks: the least busy ones.

The ReplicaSet controller takes pods that are not ready first, then those with the lowest deletion cost
(https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost). The cost is written only when
a stage is about to shrink: a cost that followed the load would be written all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from epd_operator.plan.observation import KubernetesObject, Observation
from epd_operator.plan.stages.stage_plan import StagePlan

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def deletion_costs(stage: StagePlan, *, observation: Observation) -> Iterator[dict[str, Any]]:
    """Pods of a stage that is about to shrink, with the number of their requests as cost, where it is not there yet.

    Pods that are leaving are left out, and so are pods whose load is not known: they keep the cost 0.
    """
    live = observation.deployment_of(stage.name) or {}
    if int(live.get("spec", {}).get("replicas") or 0) <= stage.replicas:
        return
    for pod in observation.pods_of(stage.name):
        requests = observation.loads.get(str(pod["metadata"]["name"]))
        if requests is None or pod["metadata"].get("deletionTimestamp"):
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

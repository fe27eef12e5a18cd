"""The PodDisruptionBudget of a stage."""

from __future__ import annotations

from typing import Any

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import Identity


def disruption_budget(*, identity: Identity, stage: StageName) -> dict[str, Any]:
    """Lets drains take a quarter of the stage's pods at a time, rounded up: one at least, so that no drain hangs.

    A pod is a whole unit in every topology, also a co-located group. A pod that is not ready serves nobody, and may
    always be evicted: waiting for it would keep its broken node from being drained.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": identity.metadata(identity.child_name(stage), stage),
        "spec": {
            "maxUnavailable": "25%",
            "selector": {"matchLabels": identity.selector(stage)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }

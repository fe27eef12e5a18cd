"""The PodDisruptionBudgets: one for each stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from epd_operator.api.v1alpha1.epddeployment import Management
from epd_operator.objects.kinds import DISRUPTION_BUDGET
from epd_operator.plan.children.child_kind import ChildContext, ChildKind
from epd_operator.plan.drift import DriftRules


def _disruption_budgets(context: ChildContext) -> Iterator[dict[str, Any]]:
    """A node drain may evict a quarter of a stage's pods at a time, rounded up: at least one, so no drain is blocked.

    Each pod serves requests without other pods of its stage; so does a co-located group. A pod that is not ready may
    always be evicted: it serves no request, and would block the drain of a broken node.
    """
    identity = context.identity
    if context.spec.disruption_budget.mode is not Management.MANAGED:
        return
    # One for all revisions: the API server evicts no pod that several of them select.
    kept = (stage for revision in context.rollout.revisions for stage in revision.kept)
    for stage in dict.fromkeys(stage.name for stage in (*(plan.key for plan in context.stages), *kept)):
        yield {
            "apiVersion": DISRUPTION_BUDGET.api_version,
            "kind": DISRUPTION_BUDGET.kind,
            "metadata": identity.metadata(identity.stage_name(stage), labels=identity.labels(stage)),
            "spec": {
                "maxUnavailable": "25%",
                "selector": {"matchLabels": identity.stage_selector(stage)},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        }


DISRUPTION_BUDGETS = ChildKind(
    kind=DISRUPTION_BUDGET,
    build=_disruption_budgets,
    purpose="limits how many pods a node drain evicts at a time",
    absence="a node drain may evict all pods of a stage at once",
    drift=DriftRules(exact_fields=frozenset({"selector"})),
    optional=True,
)

"""The Deployment of a stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from epd_operator.objects.kinds import DEPLOYMENT
from epd_operator.plan.children.child_kind import ChildContext, ChildKind
from epd_operator.plan.drift import DriftRules
from epd_operator.plan.rollout.start_order import startable

_PROGRESS_MARGIN_SECONDS = 600
"""Time for scheduling and image pulls, in addition to ``runtime.startupTimeoutSeconds``."""


def _deployments(context: ChildContext) -> Iterator[dict[str, Any]]:
    """A Deployment for each stage that may exist now."""
    identity, timeout = context.identity, context.spec.runtime.startup_timeout_seconds
    for stage in startable(context.stages, observation=context.observation):
        yield {
            "apiVersion": DEPLOYMENT.api_version,
            "kind": DEPLOYMENT.kind,
            "metadata": identity.metadata(identity.child_name(stage.key), stage.key),
            "spec": {
                "replicas": stage.replicas,
                "revisionHistoryLimit": 3,
                "progressDeadlineSeconds": timeout + _PROGRESS_MARGIN_SECONDS,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "selector": {"matchLabels": identity.selector(stage.key)},
                "template": stage.pod_template,
            },
        }


DEPLOYMENTS = ChildKind(
    kind=DEPLOYMENT,
    build=_deployments,
    purpose="the pods of a stage",
    absence="nothing can be served",
    drift=DriftRules(exact_fields=frozenset({"selector"})),
)

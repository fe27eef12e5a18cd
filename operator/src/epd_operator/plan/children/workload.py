"""The workloads of the stages that may exist now: today a Deployment each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from epd_operator.objects.kinds import DEPLOYMENT
from epd_operator.plan.children.child_kind import ChildContext, ChildKind
from epd_operator.plan.drift import DriftRules
from epd_operator.plan.rollout.start_order import startable
from epd_operator.plan.workloads.deployment import deployment


def _deployments(context: ChildContext) -> Iterator[dict[str, Any]]:
    timeout = context.spec.runtime.startup_timeout_seconds
    for stage in startable(context.stages, observation=context.observation):
        yield deployment(stage, identity=context.identity, startup_timeout_seconds=timeout)


DEPLOYMENTS = ChildKind(
    kind=DEPLOYMENT,
    build=_deployments,
    purpose="the pods of a stage",
    absence="nothing can be served",
    drift=DriftRules(exact_fields=frozenset({"selector"})),
)

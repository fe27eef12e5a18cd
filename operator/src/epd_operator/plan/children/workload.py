"""The workloads of the stages that may exist now: today a Deployment each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from epd_operator.objects.kinds import DEPLOYMENT
from epd_operator.plan.children.child_kind import ChildContext, ChildKind
from epd_operator.plan.drift import DriftRules
from epd_operator.plan.rollout.start_order import startable
from epd_operator.plan.workloads.deployment import deployment
from epd_operator.plan.workloads.progress import progress_of


def _deployments(context: ChildContext) -> Iterator[dict[str, Any]]:
    for stage in startable(context.stages, observation=context.observation):
        # A Deployment that is paused from the beginning creates no pods at all.
        has_begun = progress_of(context.observation.deployment_of(stage.key)).is_observed
        yield deployment(replace(stage, paused=stage.paused and has_begun), identity=context.identity)


_EXACT = frozenset({"affinity", "lifecycle", "nodeSelector", "resources", "securityContext", "selector"})

_CLOSED = frozenset(
    {
        # Of the Deployment:
        *("minReadySeconds", "paused"),
        # Of a pod: on which node, in which namespaces of the host and with which rights it runs.
        *("affinity", "nodeName", "nodeSelector", "priorityClassName", "runtimeClassName", "tolerations"),
        *("topologySpreadConstraints", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers"),
        *("automountServiceAccountToken", "dnsConfig", "initContainers", "resourceClaims", "shareProcessNamespace"),
        # Of a container: what it runs, and when it is restarted.
        *("args", "envFrom", "livenessProbe", "startupProbe", "volumeDevices", "workingDir"),
    }
)
"""Fields that change what the plan means, and in which the API server sets no default."""


DEPLOYMENTS = ChildKind(
    kind=DEPLOYMENT,
    build=_deployments,
    purpose="the pods of a stage",
    absence="nothing can be served",
    drift=DriftRules(exact_fields=_EXACT, closed_lists=frozenset({"containers"}), closed_fields=_CLOSED),
)

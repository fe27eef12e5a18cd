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

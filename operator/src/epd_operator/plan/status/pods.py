"""Why a pod is not ready: the reason, and a message that quotes Kubernetes and the process that ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from epd_operator.api.untyped import items, mapping
from epd_operator.objects.pod_events import PodEvent
from epd_operator.objects.pods import conditions_of, has_ended, is_ready, is_terminating, unscheduled_of
from epd_operator.objects.text import one_line
from epd_operator.plan.observation import KubernetesObject
from epd_operator.plan.status.containers import container_problem
from epd_operator.plan.status.problem import Problem, most_urgent
from epd_operator.plan.status.reasons import Reason
from epd_operator.plan.status.starting import starting_problem


def problem_of(
    pod: KubernetesObject, *, events: Sequence[PodEvent] = (), own: Collection[str] | None = None
) -> Problem | None:
    """Why the pod is not ready; None if it is ready or terminating.

    Args:
        pod: the pod.
        events: its Events, the oldest first.
        own: names of the containers that the operator has planned; None if they are unknown.
    """
    if is_terminating(pod) or is_ready(pod):
        return None
    name = str(pod["metadata"]["name"])
    status = mapping(pod.get("status"))
    if has_ended(pod):
        return _failure_of(name, status)
    if (unscheduled := unscheduled_of(pod)) is not None:
        return _unscheduled(name, pod, unscheduled)
    if _is_node_lost(pod):
        node = one_line(mapping(pod.get("spec")).get("nodeName"))
        message = f"pod {name} was ready, but its node {node} has stopped reporting to Kubernetes"
        return Problem(Reason.NODE_LOST, message)
    containers = [*items(status.get("initContainerStatuses")), *items(status.get("containerStatuses"))]
    found = [p for c in containers if not c.get("ready") and (p := container_problem(name, c)) is not None]
    return most_urgent(found) or starting_problem(name, pod, events=events, own=own)


def _unscheduled(name: str, pod: KubernetesObject, scheduled: Mapping[str, Any]) -> Problem:
    """Why the pod has no node: the scheduler finds none, or scheduling gates keep it from looking."""
    words = one_line(scheduled.get("message"))
    if scheduled.get("reason") == "SchedulingGated":
        gates = [one_line(gate.get("name")) for gate in items(mapping(pod.get("spec")).get("schedulingGates"))]
        message = (
            f"pod {name} waits for its scheduling gates {', '.join(sorted(gates))}: {words}; check the controller that "
            "removes them"
        )
        return Problem(Reason.SCHEDULING_GATED, message)
    return Problem(Reason.UNSCHEDULABLE, f"pod {name} cannot be scheduled: {words}")


def _is_node_lost(pod: KubernetesObject) -> bool:
    """Whether Kubernetes has set the pod to not ready because its node does not report.

    The kubelet sets the conditions Ready and ContainersReady together. If only ContainersReady is True, the node
    lifecycle controller has changed Ready (https://kubernetes.io/docs/concepts/architecture/nodes/#node-controller), or
    a readiness gate, which a mutating webhook may add, is not met.
    """
    conditions = conditions_of(pod)
    found = tuple(mapping(conditions.get(kind)).get("status") for kind in ("ContainersReady", "Ready"))
    return found == ("True", "False") and not mapping(pod.get("spec")).get("readinessGates")


def _failure_of(pod: str, status: Mapping[str, Any]) -> Problem | None:
    """Why a pod has failed permanently; None if it succeeded or was evicted, because another pod replaces it."""
    disrupted = any(c.get("type") == "DisruptionTarget" for c in items(status.get("conditions")))
    if disrupted or status.get("phase") == "Succeeded":
        return None
    cause = ": ".join(filter(None, (one_line(status.get("reason")), one_line(status.get("message")))))
    return Problem(Reason.PODS_FAILED, f"pod {pod} has failed permanently: {cause or 'Kubernetes gives no reason'}")

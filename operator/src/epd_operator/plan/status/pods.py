"""Why a pod is not ready: the reason, and a message that quotes Kubernetes and the process that ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from epd_operator.objects.pods import has_ended, is_ready, is_terminating
from epd_operator.objects.text import one_line
from epd_operator.plan.observation import KubernetesObject
from epd_operator.plan.status.reasons import Reason

MAX_MESSAGE = 4096
"""Longest message of a stage or condition, in characters."""

_IMAGE_REASONS = {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
_CONFIG_REASONS = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*": (ErrImagePull: )?')


@dataclass(frozen=True)
class Problem:
    """Why something is not ready."""

    reason: Reason
    message: str


def most_urgent(problems: list[Problem]) -> Problem | None:
    """The most urgent problem; the first of several with the same rank."""
    return min(problems, key=lambda p: p.reason.traits.rank, default=None)


def problem_of(pod: KubernetesObject) -> Problem | None:
    """Why the pod is not ready; None if it is ready or terminating."""
    if is_terminating(pod) or is_ready(pod):
        return None
    name = str(pod["metadata"]["name"])
    status = pod.get("status", {})
    if has_ended(pod):
        return _failure_of(name, status)
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return Problem(
                Reason.UNSCHEDULABLE, f"pod {name} cannot be scheduled: {one_line(condition.get('message'))}"
            )
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    if _is_node_lost(pod):
        node = one_line(pod.get("spec", {}).get("nodeName"))
        message = f"pod {name} was ready, but its node {node} has stopped reporting to Kubernetes"
        return Problem(Reason.NODE_LOST, message)
    found = [p for c in containers if not c.get("ready") and (p := _container_problem(name, c)) is not None]
    return most_urgent(found) or Problem(Reason.PODS_STARTING, _starting_message(name, pod))


def _is_node_lost(pod: KubernetesObject) -> bool:
    """Whether Kubernetes has set the pod to not ready because its node does not report.

    The kubelet sets the conditions Ready and ContainersReady together. If only ContainersReady is True, the node
    lifecycle controller has changed Ready (https://kubernetes.io/docs/concepts/architecture/nodes/#node-controller), or
    a readiness gate, which a mutating webhook may add, is not met.
    """
    conditions = {c.get("type"): c.get("status") for c in pod.get("status", {}).get("conditions", ())}
    gated = pod.get("spec", {}).get("readinessGates")
    return (conditions.get("ContainersReady"), conditions.get("Ready")) == ("True", "False") and not gated


def _starting_message(name: str, pod: KubernetesObject) -> str:
    """The message for a pod that is starting, or that was ready before.

    The startup probe and the readiness probe are the same request: a container that passed its startup probe was ready.
    """
    probed = {c.get("name") for c in pod.get("spec", {}).get("containers", ()) if c.get("startupProbe")}
    for container in pod.get("status", {}).get("containerStatuses", ()):
        if container.get("name") in probed and container.get("started") and not container.get("ready"):
            return f"pod {name}, container {container['name']}: started, but no longer ready"
    return f"pod {name} is starting"


def _failure_of(pod: str, status: KubernetesObject) -> Problem | None:
    """Why a pod has failed permanently; None if it succeeded or was evicted, because another pod replaces it."""
    disrupted = any(c.get("type") == "DisruptionTarget" for c in status.get("conditions", ()))
    if disrupted or status["phase"] == "Succeeded":
        return None
    cause = ": ".join(filter(None, (one_line(status.get("reason")), one_line(status.get("message")))))
    return Problem(Reason.PODS_FAILED, f"pod {pod} has failed permanently: {cause or 'Kubernetes gives no reason'}")


def _container_problem(pod: str, container: dict[str, Any]) -> Problem | None:
    where = f"pod {pod}, container {container.get('name')}"
    waiting = container.get("state", {}).get("waiting") or {}
    reason = waiting.get("reason")
    if reason in _IMAGE_REASONS:
        # The kubelet alternates between two texts during the back-off. The message has only their common cause, so that
        # the status does not change each time.
        cause = one_line(_BACK_OFF.sub("", str(waiting.get("message") or reason)))
        image = one_line(container.get("image"))
        return Problem(Reason.IMAGE_PULL_FAILED, f"{where}: image {image!r} cannot be pulled: {cause}")
    if reason in _CONFIG_REASONS:
        return Problem(Reason.CONTAINER_CONFIG_INVALID, f"{where}: {one_line(waiting.get('message') or reason)}")
    ended = container.get("state", {}).get("terminated") or container.get("lastState", {}).get("terminated")
    if ended:
        message = f"{where}: {_termination_message(ended)}"
        if reason == "CrashLoopBackOff":
            return Problem(Reason.CRASH_LOOPING, f"{message}; it ends repeatedly and is restarted after a back-off")
        return Problem(Reason.CONTAINER_RESTARTED, f"{message}; it is being restarted")
    return None


def _termination_message(terminated: dict[str, Any]) -> str:
    code, reason = terminated.get("exitCode"), terminated.get("reason")
    ending = f"ended with exit code {code}" + (f" ({reason})" if reason not in (None, "Error", "Completed") else "")
    message = one_line(terminated.get("message"))
    return f"{ending}: {message}" if message else ending

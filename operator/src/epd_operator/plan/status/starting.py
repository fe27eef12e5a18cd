"""What a pod that has no failed container waits for, from its status and its Events."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from epd_operator.api.untyped import items, mapping
from epd_operator.objects.pod_events import PodEvent
from epd_operator.objects.pods import conditions_of
from epd_operator.objects.text import one_line
from epd_operator.plan.observation import KubernetesObject
from epd_operator.plan.status.problem import Problem
from epd_operator.plan.status.reasons import Reason

_CAUSES = {
    "FailedMount": Reason.VOLUME_NOT_READY,
    "FailedMapVolume": Reason.VOLUME_NOT_READY,
    "FailedAttachVolume": Reason.VOLUME_NOT_READY,
    "FailedCreatePodSandBox": Reason.SANDBOX_FAILED,
    "NetworkNotReady": Reason.SANDBOX_FAILED,
    "FailedPrepareDynamicResources": Reason.SANDBOX_FAILED,
}
"""Reasons of Events that only Events report: pkg/kubelet/events/event.go, and pkg/controller/volume/attachdetach
(https://github.com/kubernetes/kubernetes/tree/v1.36.0)."""
_WORDS = {
    Reason.VOLUME_NOT_READY: (
        "a volume is not ready",
        "create the object that is missing, or correct the volume; Kubernetes tries again automatically",
    ),
    Reason.SANDBOX_FAILED: (
        "its sandbox (network, runtime class, devices) cannot be created",
        "check the network plugin and the container runtime of the node; the kubelet tries again automatically",
    ),
}
_PROGRESS = ("Pulling", "Pulled", "Created", "Started")
"""The kubelet pulls images and starts containers only when volumes and sandbox are ready."""
_SUMMARY = "Unable to attach or mount volumes"
"""Start of a text that lists the names of volumes. Other Events of the same pod have the cause."""
_REPEATED_WITHIN = timedelta(minutes=5)
"""The kubelet repeats a failed mount at least every 122 s (pkg/util/goroutinemap/exponentialbackoff in Kubernetes)."""
_MAX_CAUSES = 3
_VARIABLE = re.compile(
    r"(?<!pvc-)\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{20,})\b|\b[0-9]+(?:\.[0-9]+)?m?s\b"
)
"""Identifiers of sandboxes and requests, and durations: they differ at each attempt, and would change the status."""


def starting_problem(
    name: str, pod: KubernetesObject, *, events: Sequence[PodEvent], own: Collection[str] | None
) -> Problem:
    """What the pod waits for; PodsStarting if nothing shows that it cannot start.

    Args:
        name: name of the pod.
        pod: the pod.
        events: its Events, the oldest first.
        own: names of the containers that the operator has planned; None if they are unknown.
    """
    return (
        _gates(name, pod)
        or _cause_in_events(name, events)
        or _unready_addition(name, pod, own=own)
        or Problem(Reason.PODS_STARTING, _message(name, pod, events))
    )


def _gates(name: str, pod: KubernetesObject) -> Problem | None:
    """Readiness gates that are not met, of a pod whose containers are ready."""
    conditions = conditions_of(pod)
    gates = [one_line(gate.get("conditionType")) for gate in items(mapping(pod.get("spec")).get("readinessGates"))]
    unmet = [gate for gate in gates if mapping(conditions.get(gate)).get("status") != "True"]
    if not unmet or mapping(conditions.get("ContainersReady")).get("status") != "True":
        return None
    message = (
        f"pod {name}: its containers are ready, but these readiness gates are not: {', '.join(unmet)}; check the "
        "controller that sets these conditions of the pod"
    )
    return Problem(Reason.READINESS_GATES_NOT_READY, message)


def _cause_in_events(name: str, events: Sequence[PodEvent]) -> Problem | None:
    started = max((event.last for event in events if event.reason in _PROGRESS), default=None)
    failed = [event for event in events if event.reason in _CAUSES and (started is None or event.last > started)]
    if not failed:
        return None
    reason = _CAUSES[failed[-1].reason]
    recent = [e for e in failed if _CAUSES[e.reason] is reason and failed[-1].last - e.last <= _REPEATED_WITHIN]
    exact = [event for event in recent if not event.message.startswith(_SUMMARY)]
    # In the order of the alphabet: the order in time changes with each attempt, and the status with it.
    texts = sorted({_VARIABLE.sub("…", event.message) for event in exact or recent})[:_MAX_CAUSES]
    what, fix = _WORDS[reason]
    return Problem(reason, f"pod {name}: {what}: {'; '.join(texts)} ({fix})")


def _unready_addition(name: str, pod: KubernetesObject, *, own: Collection[str] | None) -> Problem | None:
    """A container that a webhook or another client has added, and that alone keeps the pod from being ready."""
    containers = items(mapping(pod.get("status")).get("containerStatuses"))
    ready = [c.get("name") for c in containers if c.get("ready")]
    if own is None or not all(name in ready for name in own):
        return None
    waiting = [*(c for c in containers if c.get("name") not in own), *_sidecars(pod)]
    unready = sorted(one_line(c.get("name")) for c in waiting if not c.get("ready") and _is_running(c))
    if not unready:
        return None
    message = (
        f"pod {name}: only containers that the operator has not added are not ready: {', '.join(unready)}; check their "
        "logs and the webhook that adds them"
    )
    return Problem(Reason.CONTAINER_NOT_READY, message)


def _message(name: str, pod: KubernetesObject, events: Sequence[PodEvent]) -> str:
    """The message for a pod that is starting, or that was ready before."""
    wait = next(_waits(pod, events), None)
    return next(_no_longer_ready(name, pod), None) or f"pod {name} is starting" + (f": {wait}" if wait else "")


def _no_longer_ready(name: str, pod: KubernetesObject) -> Iterator[str]:
    """The message for a container that was ready: its startup probe and its readiness probe are the same request."""
    probed = [c.get("name") for c in items(mapping(pod.get("spec")).get("containers")) if c.get("startupProbe")]
    for container in items(mapping(pod.get("status")).get("containerStatuses")):
        if container.get("name") in probed and container.get("started") and not container.get("ready"):
            yield f"pod {name}, container {one_line(container.get('name'))}: started, but no longer ready"


def _waits(pod: KubernetesObject, events: Sequence[PodEvent]) -> Iterator[str]:
    """What the pod waits for now, if its status or its Events show it."""
    conditions = conditions_of(pod)
    scheduler = mapping(pod.get("spec")).get("schedulerName")
    if "PodScheduled" not in conditions and scheduler not in (None, "default-scheduler"):
        yield f"the scheduler {one_line(scheduler)} has not tried to place it; check that it runs"
    sidecars = _sidecars(pod)
    for container in items(mapping(pod.get("status")).get("initContainerStatuses")):
        if container in sidecars and _is_running(container) and container.get("started") is False:
            yield f"the startup probe of its sidecar {one_line(container.get('name'))} has not succeeded yet"
        elif container not in sidecars and _is_running(container):
            since = one_line(mapping(mapping(container.get("state")).get("running")).get("startedAt"))
            yield f"its init container {one_line(container.get('name'))} has been running since {since}"
    if events and events[-1].reason == "Pulling":
        yield events[-1].message
    if mapping(conditions.get("PodReadyToStartContainers")).get("status") == "False":
        yield "its volumes or its network are not ready yet"


def _sidecars(pod: KubernetesObject) -> list[Mapping[str, Any]]:
    """Statuses of native sidecars: init containers that run as long as the pod."""
    declared = items(mapping(pod.get("spec")).get("initContainers"))
    names = [c.get("name") for c in declared if c.get("restartPolicy") == "Always"]
    statuses = items(mapping(pod.get("status")).get("initContainerStatuses"))
    return [container for container in statuses if container.get("name") in names]


def _is_running(container: Mapping[str, Any]) -> bool:
    return "running" in mapping(container.get("state"))

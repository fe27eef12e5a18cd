"""Events about pods: which pods they can explain, and what an Event says.

Every function accepts invalid values: each client that can create Events in the namespace can write any text, and can
name any component as its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from epd_operator.api.untyped import items, mapping
from epd_operator.objects.pods import conditions_of, is_live, is_ready, name_of, parse_time
from epd_operator.objects.text import one_line

CLUSTER_AUTOSCALER = "cluster-autoscaler"
KARPENTER = ("karpenter", "eks-auto-mode/compute")
"""The second is Karpenter in EKS Auto Mode: https://github.com/awsdocs/amazon-eks-user-guide/pull/1111."""

COMPONENTS = frozenset(
    {
        "kubelet",
        "default-scheduler",
        # Volumes that are attached to the node before the kubelet mounts them.
        "attachdetach-controller",
        CLUSTER_AUTOSCALER,
        *KARPENTER,
    }
)
"""Sources of Events that are used, besides the scheduler that the pod names. This removes Events of programs that say
nothing about the start of a pod. It is no protection: the API server does not check the source of an Event."""

_NOT_STARTED = ("", "ContainerCreating", "PodInitializing")
"""Reasons of waiting containers that the kubelet has not tried to start yet."""
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class PodEvent:
    """An Event about a pod.

    Attributes:
        pod: name of the pod.
        reason: one CamelCase word, such as FailedMount.
        message: text of the component, on one line, of bounded length.
        component: the source.
        last: the last time that it happened; the start of the calendar if the Event has no time.
        count: how often it has happened.
    """

    pod: str
    reason: str
    message: str = ""
    component: str = "kubelet"
    last: datetime = _NEVER
    count: int = 1


def events_about(pod: Mapping[str, Any], found: Iterable[Any]) -> tuple[PodEvent, ...]:
    """The Events of known components about the pod, the oldest first.

    Args:
        pod: the pod.
        found: Events of core/v1. Newer components fill the fields of events.k8s.io (``series``, ``eventTime``,
            ``reportingComponent``), older ones those of core/v1
            (https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/).
    """
    scheduler = mapping(pod.get("spec")).get("schedulerName")
    known = {*COMPONENTS, scheduler} if isinstance(scheduler, str) else COMPONENTS
    events = (_event(name_of(pod), event) for event in found if isinstance(event, Mapping))
    return tuple(sorted((e for e in events if e.reason and e.component in known), key=lambda e: (e.last, e.reason)))


def _event(pod: str, event: Mapping[str, Any]) -> PodEvent:
    series = mapping(event.get("series"))
    times = [series.get("lastObservedTime"), *(event.get(key) for key in ("lastTimestamp", "eventTime"))]
    counts = [count for count in (series.get("count"), event.get("count")) if isinstance(count, int)]
    return PodEvent(
        pod=pod,
        reason=one_line(event.get("reason")),
        message=one_line(event.get("message")),
        component=one_line(mapping(event.get("source")).get("component") or event.get("reportingComponent")),
        last=max((time for text in times if (time := parse_time(text)) is not None), default=_NEVER),
        count=max(1, *counts) if counts else 1,
    )


def silent_since(pod: Mapping[str, Any]) -> datetime | None:
    """Since when the pod waits for something that only its Events explain; None if its status explains it.

    Such a pod has no node yet, or it has one and the kubelet has not tried to start a container: it prepares volumes
    and the network, and pulls images.
    """
    if not is_live(pod) or is_ready(pod):
        return None
    scheduled = mapping(conditions_of(pod).get("PodScheduled"))
    if scheduled.get("status") == "False":
        silent = scheduled.get("reason") != "SchedulingGated"
    else:
        silent = scheduled.get("status") == "True" and _prepares(pod)
    if not silent:
        return None
    return parse_time(scheduled.get("lastTransitionTime")) or parse_time(
        mapping(pod.get("metadata")).get("creationTimestamp")
    )


def _prepares(pod: Mapping[str, Any]) -> bool:
    """Whether containers wait, the kubelet has tried to start none of them, and no init container runs."""
    status = mapping(pod.get("status"))
    init_containers = items(mapping(pod.get("spec")).get("initContainers"))
    sidecars = [container.get("name") for container in init_containers if container.get("restartPolicy") == "Always"]
    init = items(status.get("initContainerStatuses"))
    states = [mapping(container.get("state")) for container in (*init, *items(status.get("containerStatuses")))]
    waiting = [mapping(state["waiting"]).get("reason", "") for state in states if "waiting" in state]
    initializes = any("running" in mapping(c.get("state")) and c.get("name") not in sidecars for c in init)
    not_started = all(reason in _NOT_STARTED for reason in waiting)
    return not initializes and not_started and (bool(waiting) or not states)

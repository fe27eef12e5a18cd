"""Whether a node is on its way for a pod without one, by the Events of node autoscalers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from epd_operator.objects.pod_events import CLUSTER_AUTOSCALER, KARPENTER, PodEvent
from epd_operator.scaling.model import NodeSupply

COMING = frozenset({(CLUSTER_AUTOSCALER, "TriggeredScaleUp"), *((name, "Nominated") for name in KARPENTER)})
"""A node was requested for the pod. Cluster Autoscaler: https://github.com/kubernetes/autoscaler/blob/master/
cluster-autoscaler/FAQ.md#what-events-are-emitted-by-ca; Karpenter: https://karpenter.sh/docs/troubleshooting/."""

NONE = frozenset({(CLUSTER_AUTOSCALER, "NotTriggerScaleUp"), *((name, "FailedScheduling") for name in KARPENTER)})
"""No node that could be added fits the pod."""

VALID_FOR = timedelta(seconds=1200)
"""Cluster Autoscaler (--max-node-provision-time) and Karpenter give a node 15 minutes to register; the GPU driver and
the device plugin start after that. An older Event says nothing more: the node has not come."""


def node_supply(events_by_pod: Iterable[Iterable[PodEvent]], *, now: datetime) -> NodeSupply:
    """Whether a node is coming for any of the pods; NONE only if that is known for all pods with such Events.

    Args:
        events_by_pod: the Events of each pod without a node, the oldest first.
        now: the current time.
    """
    last = [supply for events in events_by_pod if (supply := _last_word(events, now=now)) is not None]
    if NodeSupply.COMING in last:
        return NodeSupply.COMING
    return NodeSupply.NONE if last else NodeSupply.UNKNOWN


def _last_word(events: Iterable[PodEvent], *, now: datetime) -> NodeSupply | None:
    word = None
    for event in events:
        source = (event.component, event.reason)
        if abs(now - event.last) > VALID_FOR:
            continue
        if source in COMING:
            word = NodeSupply.COMING
        elif source in NONE:
            word = NodeSupply.NONE
    return word

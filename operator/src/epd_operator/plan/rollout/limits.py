"""The limits of a rolling update in pods, and whether a rollout waits for devices that its own old pods have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epd_operator.api.untyped import mapping
from epd_operator.api.v1alpha1.rollout import Rollout
from epd_operator.objects.pods import is_live, is_ready, unscheduled_of

_HELD_BY_PODS = ("Insufficient ", "didn't match pod anti-affinity rules", "didn't have free ports")
"""What the scheduler reports if other pods occupy the nodes: plugins noderesources, interpodaffinity and nodeports
(https://github.com/kubernetes/kubernetes/tree/v1.36.0/pkg/scheduler/framework/plugins)."""


def limits(rollout: Rollout, *, replicas: int) -> tuple[int, int]:
    """The surge and the unavailable pods of a rolling update, as the Deployment controller calculates them.

    ResolveFenceposts in https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/controller/deployment/util/
    deployment_util.go
    """
    surge = _pods(rollout.max_surge, replicas=replicas, round_up=True)
    unavailable = _pods(rollout.max_unavailable, replicas=replicas, round_up=False)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def _pods(value: int | str, *, replicas: int, round_up: bool) -> int:
    if isinstance(value, int):
        return value
    hundredths = replicas * int(value.removesuffix("%"))
    return -(-hundredths // 100) if round_up else hundredths // 100


def blocked_pod(pods: Sequence[Mapping[str, Any]], *, rollout: Rollout, replicas: int) -> tuple[str, str] | None:
    """Name of a new pod that finds no node because old pods of its stage occupy them, and the scheduler's message.

    None while the rollout can continue: pods terminate, new pods are starting, or an old pod may be removed.

    Args:
        pods: all pods of the stage.
        rollout: its limits.
        replicas: its planned replicas.
    """
    surge, unavailable = limits(rollout, replicas=replicas)
    live = [pod for pod in pods if is_live(pod)]
    ready = [pod for pod in live if is_ready(pod)]
    unscheduled = [(pod, condition) for pod in live if (condition := unscheduled_of(pod)) is not None]
    ended = [pod for pod in pods if mapping(pod.get("metadata")).get("deletionTimestamp")]
    if not surge or ended or len(ready) + len(unscheduled) < len(live) or len(ready) > replicas - unavailable:
        return None
    for pod, condition in unscheduled:
        message = str(condition.get("message") or "")
        has_old = any(_template(old) != _template(pod) and _created(old) <= _created(pod) for old in ready)
        if has_old and any(words in message for words in _HELD_BY_PODS):
            return str(mapping(pod.get("metadata")).get("name")), message
    return None


def _template(pod: Mapping[str, Any]) -> str:
    return str(mapping(mapping(pod.get("metadata")).get("labels")).get("pod-template-hash"))


def _created(pod: Mapping[str, Any]) -> str:
    """Time of creation; times of the API server, in UTC with whole seconds, sort as text."""
    return str(mapping(pod.get("metadata")).get("creationTimestamp") or "")

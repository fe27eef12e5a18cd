"""Reads pod objects. Every function accepts invalid values, because other clients can write the status of a pod."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from epd_operator.api.untyped import items, mapping

OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""Names of pods and of EPDDeployments. A name that does not match must not become part of a path or a URL."""

TERMINATION_MARGIN = timedelta(seconds=60)
"""How long after the end of its grace period a terminating pod may still do work."""

_ENDED_PHASES = ("Succeeded", "Failed")


def name_of(pod: Mapping[str, Any]) -> str:
    """The pod's name; empty if it is not valid."""
    name = mapping(pod.get("metadata")).get("name")
    return name if isinstance(name, str) and OBJECT_NAME.fullmatch(name) else ""


def conditions_of(pod: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The pod's conditions by type."""
    conditions = items(mapping(pod.get("status")).get("conditions"))
    return {kind: c for c in conditions if isinstance(kind := c.get("type"), str)}


def unscheduled_of(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The pod's condition PodScheduled if it says that the pod has no node; None otherwise."""
    scheduled = mapping(conditions_of(pod).get("PodScheduled"))
    return scheduled if scheduled.get("status") == "False" else None


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's condition Ready is True."""
    conditions = items(mapping(pod.get("status")).get("conditions"))
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def is_terminating(pod: Mapping[str, Any]) -> bool:
    """Whether the pod, or any other object, has been deleted and is not gone yet."""
    return bool(mapping(pod.get("metadata")).get("deletionTimestamp"))


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether all containers have ended permanently. Another pod may have the address of this pod by now."""
    return mapping(pod.get("status")).get("phase") in _ENDED_PHASES


def is_overdue(pod: Mapping[str, Any], *, now: datetime) -> bool:
    """Whether the pod should have ended already: its node is lost, and it may exist for hours without doing work.

    ``deletionTimestamp`` is the time at which the grace period of the pod ends.
    """
    deadline = parse_time(mapping(pod.get("metadata")).get("deletionTimestamp"))
    return deadline is not None and now > deadline + TERMINATION_MARGIN


def is_live(pod: Mapping[str, Any]) -> bool:
    """Whether the pod is neither terminating nor ended."""
    return not is_terminating(pod) and not has_ended(pod)


def parse_time(text: Any) -> datetime | None:
    """A time of the Kubernetes API (RFC 3339); None if the text is not one, or has no time zone."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return time if time.tzinfo is not None else None

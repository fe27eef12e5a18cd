"""What the scheduler looks at in nodes and RuntimeClasses. Every function accepts invalid values."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from epd_operator.api.untyped import items, mapping
from epd_operator.objects.quantities import parse

_KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")
_STATES = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/",
    "ToBeDeletedByClusterAutoscaler",
)
"""Taints that show the state of a node at the moment, such as not ready, cordoned, starting or about to be removed:
https://kubernetes.io/docs/reference/labels-annotations-taints/, https://karpenter.sh/docs/concepts/disruption/,
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint that keeps away pods without a matching toleration."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What a node is, without its state: nothing here changes with a heartbeat.

    Attributes:
        name: its name.
        labels: its labels.
        devices: allocatable extended resources, such as nvidia.com/gpu.
        taints: its taints, without those that only show its state.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RuntimeClass:
    """What a RuntimeClass adds to its pods: https://kubernetes.io/docs/concepts/containers/runtime-class/."""

    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """All nodes and RuntimeClasses of the cluster, at one moment."""

    nodes: tuple[Node, ...] = ()
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)


def node_of(raw: Mapping[str, Any]) -> Node:
    """What a Node object says. Texts are shared between nodes, because most are the same on thousands of them."""
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    taints = (
        Taint(_text(t.get("key")), _text(t.get("value")), _text(t.get("effect"))) for t in items(spec.get("taints"))
    )
    return Node(
        name=_text(metadata.get("name")),
        labels=_texts(metadata.get("labels")),
        devices={
            sys.intern(name): int(amount)
            for name, quantity in mapping(status.get("allocatable")).items()
            if isinstance(name, str) and "/" in name and (amount := parse(str(quantity))) is not None
        },
        taints=tuple(t for t in taints if t.effect in _KEEPS_PODS_AWAY and not t.key.startswith(_STATES)),
    )


def runtime_class_of(raw: Mapping[str, Any]) -> RuntimeClass:
    """What a RuntimeClass object says."""
    scheduling = mapping(raw.get("scheduling"))
    return RuntimeClass(
        selector=_texts(scheduling.get("nodeSelector")), tolerations=tuple(items(scheduling.get("tolerations")))
    )


def _texts(value: Any) -> dict[str, str]:
    return {sys.intern(k): sys.intern(v) for k, v in mapping(value).items() if isinstance(k, str) and type(v) is str}


def _text(value: Any) -> str:
    return sys.intern(value) if type(value) is str else ""

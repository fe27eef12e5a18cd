"""Addresses and kinds of nodes, which all parts of the cluster use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from epd_local.errors import LocalClusterError

CONTROL_PLANE = "control-plane"
CONTROL_PLANE_IP = "172.30.0.1"
NODE_NETWORK_PREFIX = 24
API_PORT = 6443
POD_NETWORK = "10.244.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
DNS_SERVICE_IP = "10.96.0.10"
CLUSTER_DOMAIN = "cluster.local"

DEFAULT_NODES = ("gb200-0", "gb200-1", "rtx-0", "cpu-0")
MAX_NODES = 100

GPU_RESOURCE = "nvidia.com/gpu"
PRODUCT_LABEL = "nvidia.com/gpu.product"


@dataclass(frozen=True)
class NodeKind:
    """GPU product and number of GPUs of a kind of node."""

    product: str = ""
    gpus: int = 0


KINDS = {
    "gb200": NodeKind("NVIDIA-GB200", 4),
    "rtx": NodeKind("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 2),
    "cpu": NodeKind(),
}
_NAME = re.compile(rf"({'|'.join(KINDS)})-(0|[1-9]\d?)")


@dataclass(frozen=True)
class Node:
    """A node: its name, and the index from which its addresses follow."""

    name: str
    index: int

    @property
    def kind(self) -> NodeKind:
        """The kind of the node."""
        return KINDS[self.name.rsplit("-", 1)[0]]

    @property
    def address(self) -> str:
        """Address of the node on the cluster's bridge."""
        return f"172.30.0.{10 + self.index}"

    @property
    def pod_network(self) -> str:
        """Addresses of the node's pods."""
        return f"10.244.{self.index}.0/24"

    @property
    def link(self) -> str:
        """Name of the interface of the node on the bridge; the kernel allows 15 characters."""
        return f"node{self.index}"

    @property
    def labels(self) -> dict[str, str]:
        """Labels in addition to those that every kubelet sets."""
        return {PRODUCT_LABEL: self.kind.product} if self.kind.gpus else {}

    @property
    def taints(self) -> list[dict[str, str]]:
        """Nodes with GPUs accept only pods with a toleration."""
        return [{"key": GPU_RESOURCE, "value": "present", "effect": "NoSchedule"}] if self.kind.gpus else []


def check_name(name: str) -> str:
    """Return *name* if it is a valid name of a node.

    Raises:
        LocalClusterError: the kind is unknown or the number is not from 0 to 99.
    """
    if not _NAME.fullmatch(name):
        kinds = ", ".join(f"{kind}-0" for kind in KINDS)
        raise LocalClusterError(f"{name!r} is not a valid name of a node: use a kind and a number, such as {kinds}")
    return name


def place(names: Sequence[str], *, existing: Sequence[Node] = ()) -> tuple[Node, ...]:
    """Return the existing nodes followed by new ones for further names, each with its own index.

    An existing node keeps its index, so that a restarted node has the same address.
    """
    nodes = list(existing)
    taken = {node.name for node in nodes}
    for name in names:
        if check_name(name) in taken:
            continue
        index = len(nodes)
        if index >= MAX_NODES:
            raise LocalClusterError(f"a cluster can have at most {MAX_NODES} nodes")
        nodes.append(Node(name=name, index=index))
        taken.add(name)
    return tuple(nodes)

"""The cluster's network: a bridge in the control plane's namespace and one cable to every node."""

from __future__ import annotations

import socket
from pathlib import Path

from epd_local.cluster.nodes import (
    CONTROL_PLANE_IP,
    NODE_NETWORK_PREFIX,
    SERVICE_NETWORK,
    Node,
)
from epd_local.errors import LocalClusterError
from epd_local.progress import call, wait_until

BRIDGE = "br0"
NODE_INTERFACE = "eth0"
CABLE_SECONDS = 30.0


def ip(arguments: str) -> None:
    """Run ``ip`` in this process's network namespace."""
    call(["ip", *arguments.split()], what=f"ip {arguments}")


def set_up_bridge() -> None:
    """Make the bridge that the nodes are plugged into, in the control plane's namespace."""
    ip("link set lo up")
    ip(f"link add {BRIDGE} type bridge")
    ip(f"addr add {CONTROL_PLANE_IP}/{NODE_NETWORK_PREFIX} dev {BRIDGE}")
    ip(f"link set {BRIDGE} up")
    forward_packets()
    # Nodes reach the pods of others by way of the bridge's host, which must not tell them of a shorter way.
    for interface in ("all", BRIDGE):
        Path(f"/proc/sys/net/ipv4/conf/{interface}/send_redirects").write_text("0")


def forward_packets() -> None:
    """Let this network namespace route."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def plug_in(node: Node, *, pid: int) -> None:
    """Lay the cable from the bridge to a node, given a process of the node, and route its pods there."""
    names = {name for _, name in socket.if_nameindex()}
    if node.link in names:  # a node that lost its power a moment ago
        ip(f"link del {node.link}")
    ip(f"link add {node.link} type veth peer name {NODE_INTERFACE} netns {pid}")
    ip(f"link set {node.link} master {BRIDGE} up")
    ip(f"route replace {node.pod_network} via {node.address}")


def route_services_through(node: Node | None) -> None:
    """Send what the control plane's namespace sends to Services by way of a node, whose kube-proxy knows them."""
    if node is None:
        call(["ip", "route", "flush", SERVICE_NETWORK], what="taking away the route to Services")
    else:
        ip(f"route replace {SERVICE_NETWORK} via {node.address}")


def set_up_node(node: Node) -> None:
    """Wait for the cable and bring the node's side up, in the node's namespace.

    Raises:
        LocalClusterError: no cable came.
    """
    ip("link set lo up")
    if not wait_until(_has_cable, seconds=CABLE_SECONDS, interval=0.02):
        raise LocalClusterError(f"no network cable was laid to {node.name} within {CABLE_SECONDS:.0f} s")
    ip(f"addr add {node.address}/{NODE_NETWORK_PREFIX} dev {NODE_INTERFACE}")
    ip(f"link set {NODE_INTERFACE} up")
    ip(f"route add default via {CONTROL_PLANE_IP}")
    forward_packets()


def _has_cable() -> bool:
    return NODE_INTERFACE in {name for _, name in socket.if_nameindex()}

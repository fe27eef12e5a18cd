"""The network of the cluster: a bridge in the namespace of the control plane, with a veth pair to every node."""

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
LINK_SECONDS = 30.0


def ip(arguments: str) -> None:
    """Run ``ip`` in this process's network namespace."""
    call(["ip", *arguments.split()], what=f"ip {arguments}")


def set_up_bridge() -> None:
    """Create the bridge for the nodes, in the namespace of the control plane."""
    ip("link set lo up")
    ip(f"link add {BRIDGE} type bridge")
    ip(f"addr add {CONTROL_PLANE_IP}/{NODE_NETWORK_PREFIX} dev {BRIDGE}")
    ip(f"link set {BRIDGE} up")
    forward_packets()
    # Nodes reach the pods of other nodes through this namespace, which must not send ICMP redirects to a shorter route.
    for interface in ("all", BRIDGE):
        Path(f"/proc/sys/net/ipv4/conf/{interface}/send_redirects").write_text("0")


def forward_packets() -> None:
    """Enable IP forwarding in this network namespace."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def connect(node: Node, *, pid: int) -> None:
    """Create the veth pair from the bridge to a node, given a process of the node, and the route to its pods."""
    names = {name for _, name in socket.if_nameindex()}
    if node.link in names:  # of a node that has just crashed
        ip(f"link del {node.link}")
    ip(f"link add {node.link} type veth peer name {NODE_INTERFACE} netns {pid}")
    ip(f"link set {node.link} master {BRIDGE} up")
    ip(f"route replace {node.pod_network} via {node.address}")


def route_services_through(node: Node | None) -> None:
    """Route Services in the namespace of the control plane through a node, whose kube-proxy translates them."""
    if node is None:
        call(["ip", "route", "flush", SERVICE_NETWORK], what="removing the route to Services")
    else:
        ip(f"route replace {SERVICE_NETWORK} via {node.address}")


def set_up_node(node: Node) -> None:
    """Wait for the veth pair and configure the side of the node, in the namespace of the node.

    Raises:
        LocalClusterError: the veth pair was not created.
    """
    ip("link set lo up")
    if not wait_until(_has_link, seconds=LINK_SECONDS, interval=0.02):
        raise LocalClusterError(f"no veth pair was created for {node.name} within {LINK_SECONDS:.0f} s")
    ip(f"addr add {node.address}/{NODE_NETWORK_PREFIX} dev {NODE_INTERFACE}")
    ip(f"link set {NODE_INTERFACE} up")
    ip(f"route add default via {CONTROL_PLANE_IP}")
    forward_packets()


def _has_link() -> bool:
    return NODE_INTERFACE in {name for _, name in socket.if_nameindex()}

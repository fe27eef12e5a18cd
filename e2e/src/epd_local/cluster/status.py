"""The status of the cluster."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from epd_local.cluster import config as configuration
from epd_local.cluster import exposure, processes
from epd_local.cluster.lifecycle import api_client
from epd_local.cluster.nodes import CONTROL_PLANE, GPU_RESOURCE, Node
from epd_local.cluster.supervisor import read_failure
from epd_local.errors import LocalClusterError
from epd_local.locations import Locations


@dataclass(frozen=True)
class NodeStatus:
    """A node, as observed on the machine and in the API server."""

    name: str
    address: str
    has_power: bool
    ready: str  # True, False, Unknown; empty if the API server does not answer
    gpus: int
    failure: str


@dataclass(frozen=True)
class ClusterStatus:
    """The status of the whole cluster."""

    running: bool
    kubeconfig: str
    failure: str
    nodes: tuple[NodeStatus, ...]
    forwards: tuple[exposure.Forward, ...]
    logs: str

    def as_object(self) -> dict[str, Any]:
        """Return the status for JSON output."""
        return asdict(self)

    def as_text(self) -> str:
        """Return the status as text."""
        if not self.running:
            return "the cluster is not running" + (f"\nlast failure: {self.failure}" if self.failure else "")
        lines = [f"kubeconfig  {self.kubeconfig}", f"logs        {self.logs}"]
        lines += [f"failure     {self.failure}"] if self.failure else []
        lines += [f"forward     localhost:{found.local_port} -> {found.name}" for found in self.forwards]
        lines.append(f"{'NODE':<12}{'POWER':<8}{'READY':<9}{'GPUS':<6}ADDRESS")
        for node in self.nodes:
            power = "on" if node.has_power else "off"
            lines.append(
                f"{node.name:<12}{power:<8}{node.ready or '-':<9}{node.gpus:<6}{node.address}  {node.failure}".rstrip()
            )
        return "\n".join(lines)


def status(where: Locations) -> ClusterStatus:
    """Return the status of the cluster, without changing it."""
    config = configuration.load(where.state)
    running = processes.control_plane_init(where.state) is not None
    observed = _nodes_in_api(where) if running else {}
    powered = processes.node_inits(where.state)

    def describe(node: Node) -> NodeStatus:
        ready, gpus = observed.get(node.name, ("", 0))
        return NodeStatus(
            name=node.name, address=node.address, has_power=node.name in powered, ready=ready, gpus=gpus,
            failure=_failure(where, node.name),
        )  # fmt: skip

    return ClusterStatus(
        running=running,
        kubeconfig=str(where.kubeconfig),
        failure=_failure(where, CONTROL_PLANE),
        nodes=tuple(describe(node) for node in config.nodes) if config else (),
        forwards=tuple(exposure.running(where.state)),
        logs=str(where.logs),
    )


def _failure(where: Locations, scope: str) -> str:
    failure = read_failure(where.state, scope)
    return failure.text if failure else ""


def _nodes_in_api(where: Locations) -> dict[str, tuple[str, int]]:
    """Return readiness and GPUs of each node in the API server."""
    try:
        items = api_client(where).get("/api/v1/nodes")["items"]
    except LocalClusterError:
        return {}
    return {item["metadata"]["name"]: (_readiness(item), _gpus(item)) for item in items}


def _readiness(node: dict[str, Any]) -> str:
    conditions = node["status"].get("conditions", [])
    return next((str(condition["status"]) for condition in conditions if condition["type"] == "Ready"), "Unknown")


def _gpus(node: dict[str, Any]) -> int:
    return int(node["status"].get("allocatable", {}).get(GPU_RESOURCE, 0))

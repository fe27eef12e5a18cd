"""Switches nodes on and off, and waits until they are ready."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from epd_local.cluster import cgroups, control_plane, kubeconfig, pki, processes
from epd_local.cluster.api import ApiClient
from epd_local.cluster.config import ClusterConfig
from epd_local.cluster.nodes import API_PORT, CONTROL_PLANE_IP, GPU_RESOURCE, Node, place
from epd_local.cluster.supervisor import clear_failures, raise_failure, read_failure
from epd_local.errors import ComponentFailedError, LocalClusterError
from epd_local.progress import call, say, wait_until

API_URL = f"https://{CONTROL_PLANE_IP}:{API_PORT}"
NODE_SECONDS = 150.0
SERVICE_ACCOUNT_SECONDS = 60.0


def with_nodes(config: ClusterConfig, names: Sequence[str]) -> ClusterConfig:
    """Return the configuration with nodes of these names added."""
    return dataclasses.replace(config, nodes=place(names, existing=config.nodes))


def switch_on(config: ClusterConfig, node: Node) -> None:
    """Start the processes of a node, with its previous data."""
    init = processes.control_plane_init(config.state)
    if init is None:
        raise LocalClusterError("the cluster is not running; run `python3 -m epd_local start`")
    folder = config.state / "pki"
    pki.ensure_certificates(pki.node_identities(node), folder=folder)
    identity = f"kubelet-{node.name}"
    path = control_plane.kubeconfig_of(config.state, identity)
    kubeconfig.write(path, server=API_URL, pki=folder, identity=identity)
    clear_failures(config.state, node.name)
    home = config.data / "nodes" / node.name
    home.mkdir(parents=True, exist_ok=True)
    (home / "switched-on").write_text(str(time.time()))
    command = processes.inside_command("start-node", state=config.state, arguments=[node.name])
    call(
        processes.enter(init, command),
        what=f"switching {node.name} on",
        environment=processes.python_environment(),
    )


def ensure_on(config: ClusterConfig, node: Node) -> None:
    """Switch a node on unless it runs; a node with a failed component is switched off first."""
    if node.name in processes.node_inits(config.state):
        failure = read_failure(config.state, node.name)
        if failure is None:
            return
        say(f"{node.name}: {failure.text}. Restarting the node")
        switch_off(config, node)
    switch_on(config, node)


def switch_off(config: ClusterConfig, node: Node) -> None:
    """Simulate a power failure of a node: all its processes end at once, without a signal that they could handle."""
    init = processes.node_inits(config.state).get(node.name)
    if init is None:
        raise LocalClusterError(f"{node.name} has no power; `python3 -m epd_local node {node.name}` starts it again")
    processes.end(init)
    cgroups.remove(config.name, node.name, where=cgroups.hierarchies())


def wait_ready(config: ClusterConfig, node: Node, *, api: ApiClient) -> None:
    """Wait until the kubelet reports that the node is ready, and write its GPUs into its status.

    Raises:
        ComponentFailedError: one of its components failed, or it is not ready in time.
    """
    since = float((config.data / "nodes" / node.name / "switched-on").read_text())

    def is_over() -> bool:
        return read_failure(config.state, node.name) is not None or _is_ready(node, api=api, since=since)

    in_time = wait_until(is_over, seconds=NODE_SECONDS, interval=0.2)
    raise_failure(config.state, node.name)
    if not in_time:
        log = config.state / "logs" / node.name / "kubelet.log"
        raise ComponentFailedError(node.name, problem=f"is not Ready after {NODE_SECONDS:.0f} s", log=log)
    if node.kind.gpus:
        _write_gpus(node, api=api)


def _is_ready(node: Node, *, api: ApiClient, since: float) -> bool:
    path = f"/api/v1/nodes/{node.name}"
    return api.exists(path) and reports_ready(api.get(path), since=since)


def reports_ready(node: dict[str, Any], *, since: float) -> bool:
    """Return whether a Node object is Ready, with a heartbeat after a time in seconds of the epoch.

    After a power failure the API server still has the last status of the node, which may be Ready.
    """
    for condition in node.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready" and condition["status"] == "True":
            heartbeat = datetime.strptime(condition["lastHeartbeatTime"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
            return heartbeat.timestamp() >= int(since)
    return False


def _write_gpus(node: Node, *, api: ApiClient) -> None:
    """Write the GPUs into the status of the node, like a device plugin through the kubelet."""
    path = f"/api/v1/nodes/{node.name}/status"
    wanted = {GPU_RESOURCE: str(node.kind.gpus)}
    api.patch(path, {"status": {"capacity": wanted, "allocatable": wanted}})


def route_services(config: ClusterConfig) -> None:
    """Route Services for the forwarders through a node that has power; nodes without GPUs are preferred."""
    init = processes.control_plane_init(config.state)
    powered = processes.node_inits(config.state)
    candidates = sorted((node for node in config.nodes if node.name in powered), key=lambda node: bool(node.kind.gpus))
    if init is not None:
        names = [node.name for node in candidates[:1]]
        command = processes.inside_command("route-services", state=config.state, arguments=names)
        call(processes.enter(init, command), what="routing to Services", environment=processes.python_environment())


def wait_for_service_account(api: ApiClient) -> None:
    """Wait for the ServiceAccount of the default namespace, without which no pod can be created there."""
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    if not wait_until(lambda: api.exists(path), seconds=SERVICE_ACCOUNT_SECONDS):
        raise LocalClusterError(
            f"the controller manager created no ServiceAccount within {SERVICE_ACCOUNT_SECONDS:.0f} s; see its log"
        )

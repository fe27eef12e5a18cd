"""Ports of the machine that are forwarded into the cluster: to the API server and to Services."""

from __future__ import annotations

import errno
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from epd_local.cluster import forward, processes
from epd_local.cluster.api import ApiClient, ApiError
from epd_local.errors import LocalClusterError
from epd_local.progress import call

LOOPBACK = "127.0.0.1"
API_NAME = "kubernetes"


@dataclass(frozen=True)
class ServicePort:
    """A port of a Service, as the user specifies it."""

    namespace: str
    service: str
    port: str  # number or name

    @property
    def text(self) -> str:
        """The same as text."""
        return f"{self.namespace}/{self.service}:{self.port}"


@dataclass(frozen=True)
class Forward:
    """A forwarder that is running."""

    pid: int
    local_port: int
    name: str
    target: str


def parse_service_port(text: str) -> ServicePort:
    """Read ``NAMESPACE/SERVICE:PORT``.

    Raises:
        LocalClusterError: the format is invalid.
    """
    match = re.fullmatch(r"([a-z0-9-]+)/([a-z0-9-]+):([a-z0-9-]+)", text)
    if not match:
        raise LocalClusterError(f"expose needs NAMESPACE/SERVICE:PORT, not {text!r}")
    return ServicePort(*match.groups())


def running(state: Path) -> list[Forward]:
    """Return the forwarders of a cluster."""
    return [
        Forward(process.pid, int(process.option("--port")), process.option("--name"), process.option("--target"))
        for process in processes.find(state, role="forward")
    ]


def listen(port: int) -> socket.socket:
    """Return a socket that listens on a port of the loopback interface; 0 takes any free port.

    Raises:
        LocalClusterError: another program uses the port.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A port with connections in TIME_WAIT is free; a port with a listening socket is not.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise LocalClusterError(
            f"port {port} of this machine is in use by another program (`ss -ltnp sport = :{port}` shows it): "
            f"stop that program, or choose another port with --local-port (`make demo LOCAL_PORT={port + 1}`)"
        ) from error
    listening.listen(128)
    return listening


def start(listening: socket.socket, *, state: Path, name: str, target: str) -> None:
    """Pass a listening socket to a new forwarder inside the cluster."""
    init = processes.control_plane_init(state)
    if init is None:
        raise LocalClusterError("the cluster is not running; run `python3 -m epd_local start`")
    descriptor = listening.fileno()
    words = forward.arguments(descriptor=descriptor, port=listening.getsockname()[1], name=name, target=target)
    command = processes.enter(init, processes.inside_command("start-forward", state=state, arguments=words))
    listening.set_inheritable(True)
    call(
        command,
        what=f"forwarding to {name}",
        environment=processes.python_environment(),
        pass_descriptors=(descriptor,),
    )
    listening.close()


def target_of(wanted: ServicePort, *, api: ApiClient) -> str:
    """Return ``ADDRESS:PORT`` of a Service inside the cluster.

    Raises:
        LocalClusterError: the Service or the port does not exist, or the Service is headless.
    """
    try:
        service = api.get(f"/api/v1/namespaces/{wanted.namespace}/services/{wanted.service}")
    except ApiError as error:
        raise LocalClusterError(f"Service {wanted.namespace}/{wanted.service} not found ({error})") from error
    address, ports = service["spec"].get("clusterIP", "None"), service["spec"].get("ports", [])
    if address in ("", "None"):
        raise LocalClusterError(f"Service {wanted.namespace}/{wanted.service} is headless: it has no address to expose")
    for port in ports:
        if wanted.port in (str(port["port"]), port.get("name")):
            return f"{address}:{port['port']}"
    offered = ", ".join(str(port["port"]) for port in ports)
    raise LocalClusterError(f"Service {wanted.namespace}/{wanted.service} has no port {wanted.port}; it has {offered}")


def expose(wanted: ServicePort, *, local_port: int, state: Path, api: ApiClient) -> str:
    """Make a Service reachable on a local port, and return a message about it.

    A second call changes nothing. A port that is forwarded to another Service of this cluster is moved to this one.
    """
    target = target_of(wanted, api=api)
    message = f"http://localhost:{local_port} is forwarded to {wanted.text} ({target})"
    for found in running(state):
        if found.local_port != local_port:
            continue
        if found.name == API_NAME:
            raise LocalClusterError(
                f"port {local_port} is forwarded to the API server; choose another port with --local-port"
            )
        if (found.name, found.target) == (wanted.text, target):
            return message
        withdraw(found)
        message += f", no longer to {found.name}"
    start(listen(local_port), state=state, name=wanted.text, target=target)
    return message


def require_free(port: int, *, state: Path) -> None:
    """Check that no other program uses a port; a port that is forwarded into this cluster is accepted.

    Raises:
        LocalClusterError: another program uses the port.
    """
    if all(found.local_port != port for found in running(state)):
        listen(port).close()


def withdraw(found: Forward) -> None:
    """End a forwarder and wait until its port is free."""
    processes.end(found.pid)

"""Programs inside the namespaces of the cluster: ``python -m epd_local.cluster.inside ROLE --state STATE …``.

Roles: ``control-plane`` and ``node NAME`` are process 1 of their namespaces. ``start-node NAME``, ``start-forward …``
and ``route-services [NAME]`` are short commands in the namespaces of the control plane; ``forward …`` keeps running
there. ``import NAME ARCHIVE…`` is a short command in the namespaces of a node.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from epd_local.cluster import bootstrap_objects, control_plane, forward, kernel, network
from epd_local.cluster.api import ApiClient
from epd_local.cluster.config import ClusterConfig, load
from epd_local.cluster.inside_node import import_into, run_node
from epd_local.cluster.nodes import API_PORT, CONTROL_PLANE, CONTROL_PLANE_IP
from epd_local.cluster.processes import inside_command, new_namespaces, python_environment
from epd_local.cluster.supervisor import Components, Failure, record_failure
from epd_local.errors import ComponentFailedError, LocalClusterError
from epd_local.progress import wait_until

API_SECONDS = 120.0
UNSHARE_SECONDS = 10.0


def run_control_plane(config: ClusterConfig) -> None:
    """Start network and control plane, create a file when they are ready, and keep running."""
    socket.sethostname(CONTROL_PLANE)
    kernel.set_propagation(kernel.MS_PRIVATE)
    network.set_up_bridge()
    components = Components(scope=CONTROL_PLANE, state=config.state)
    components.start("etcd", control_plane.etcd(config))
    api_server = components.start("kube-apiserver", control_plane.api_server(config))
    api = ApiClient(host="127.0.0.1", port=API_PORT, pki=config.state / "pki")
    components.wait_ready("kube-apiserver", api_server, is_ready=api.is_ready, seconds=API_SECONDS)
    components.start("kube-controller-manager", control_plane.controller_manager(config))
    components.start("kube-scheduler", control_plane.scheduler(config))
    for collection, body in bootstrap_objects.objects():
        api.create_if_absent(collection, body)
    dns = components.start("coredns", control_plane.coredns(config))
    components.wait_ready("coredns", dns, is_ready=_dns_is_ready, seconds=API_SECONDS)
    (config.state / "control-plane.ready").touch()
    components.reap_forever()


def _dns_is_ready() -> bool:
    try:
        socket.create_connection((CONTROL_PLANE_IP, 8181), timeout=1).close()
    except OSError:
        return False
    return True


def start_node(config: ClusterConfig, name: str) -> None:
    """Start a node as a child of process 1 of the cluster, and connect it to the bridge."""
    node = config.node(name)
    command = new_namespaces(inside_command("node", state=config.state, arguments=[name]))
    wrapper = _start_detached(command, log=config.state / "logs" / name / "init.log")
    children = Path(f"/proc/{wrapper}/task/{wrapper}/children")
    if not wait_until(lambda: bool(children.read_text().split()), seconds=UNSHARE_SECONDS, interval=0.02):
        raise LocalClusterError(f"{name}: unshare created no namespaces within {UNSHARE_SECONDS:.0f} s")
    network.connect(node, pid=int(children.read_text().split()[0]))


def start_forward(config: ClusterConfig, arguments: Sequence[str]) -> None:
    """Start a forwarder that continues after this process has ended; it inherits the listening socket."""
    command = inside_command("forward", state=config.state, arguments=arguments)
    log = config.state / "logs" / CONTROL_PLANE / "forward.log"
    _start_detached(command, log=log, sockets=(forward.descriptor_in(arguments),))


def _start_detached(command: Sequence[str], *, log: Path, sockets: Sequence[int] = ()) -> int:
    """Start a process that process 1 of the cluster inherits when this one has ended."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd="/", start_new_session=True,
            env=python_environment(), pass_fds=sockets,
        )  # fmt: skip
    return process.pid


def _failure(error: Exception, *, log: Path) -> Failure:
    if isinstance(error, ComponentFailedError):
        return Failure(error.component, error.problem, log=error.log)
    return Failure("process 1", f"failed: {error}", log=log)


def main(words: Sequence[str]) -> int:
    """Run the role in the command line; a failure is recorded for the commands outside of the namespaces."""
    role, state, arguments = words[0], Path(words[2]), list(words[3:])
    config = load(state)
    if config is None:
        raise LocalClusterError(f"there is no cluster configuration in {state}")
    roles: dict[str, Callable[[], None]] = {
        "control-plane": lambda: run_control_plane(config),
        "node": lambda: run_node(config, config.node(arguments[0])),
        "start-node": lambda: start_node(config, arguments[0]),
        "import": lambda: import_into(config, arguments[0], archives=arguments[1:]),
        "start-forward": lambda: start_forward(config, arguments),
        "forward": lambda: forward.run(arguments),
        "route-services": lambda: network.route_services_through(config.node(arguments[0]) if arguments else None),
    }
    try:
        roles[role]()
    except (LocalClusterError, OSError) as error:
        print(f"{time.strftime('%H:%M:%S')} {error}", file=sys.stderr, flush=True)
        if role in ("control-plane", "node"):
            scope = arguments[0] if role == "node" else CONTROL_PLANE
            record_failure(state, scope, _failure(error, log=state / "logs" / scope / "init.log"))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

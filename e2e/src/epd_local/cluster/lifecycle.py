"""Starts the cluster, or the missing parts of it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from epd_local.builds import go
from epd_local.builds.recipes import CLUSTER_BINARIES
from epd_local.cluster import (
    audit,
    control_plane,
    exposure,
    kubeconfig,
    own_folders,
    pki,
    power,
    preflight,
    processes,
    removal,
)
from epd_local.cluster import config as configuration
from epd_local.cluster.api import ApiClient
from epd_local.cluster.config import ClusterConfig, Mount
from epd_local.cluster.images import keep_archives
from epd_local.cluster.nodes import API_PORT, CONTROL_PLANE, DEFAULT_NODES, place
from epd_local.cluster.supervisor import raise_failure, read_failure
from epd_local.errors import ComponentFailedError, LocalClusterError
from epd_local.image.small import pause_image
from epd_local.locations import Locations
from epd_local.locks import locked
from epd_local.progress import say, step, wait_until

PREFERRED_API_PORT = 16443
CONTROL_PLANE_SECONDS = 150.0


@contextmanager
def changing(where: Locations) -> Iterator[None]:
    """Allow only one command at a time to change the cluster."""
    with locked(where.state / "lock", waiting_for="changing the cluster"):
        yield


def start(where: Locations, *, names: Sequence[str], mounts: Sequence[Mount]) -> None:
    """Start the cluster, or the missing parts of it.

    Args:
        where: the folders of the cluster.
        names: nodes that must run; none means the existing nodes, or the default ones.
        mounts: folders of the machine that are mounted in every node; none means the existing mounts.

    Raises:
        LocalClusterError: the machine cannot run it, or a component failed. A new cluster is then stopped again, with
            its logs kept.
    """
    cni_folder = preflight.check()
    binaries = {name: str(path) for name, path in go.ensure(CLUSTER_BINARIES, where=where).items()}
    pause = pause_image(where)
    with changing(where):
        is_new = processes.control_plane_init(where.state) is None
        config = None if is_new else configuration.load(where.state)
        if config is None:
            removal.remove_everything(where)
            config = ClusterConfig(
                name=where.name, state=where.state, data=where.data, binaries=binaries, cni_folder=cni_folder,
                nodes=place(names or DEFAULT_NODES), mounts=tuple(mounts),
            )  # fmt: skip
        else:
            _refuse_other_mounts(config, mounts)
            config = power.with_nodes(config, names)
        try:
            _start_all(config, where=where, pause=pause)
        except BaseException:
            if is_new:
                removal.end_processes(where)
                say(f"the start failed: all processes were stopped, the logs are in {where.logs}")
            raise
    say(f"the cluster is running: export KUBECONFIG={where.kubeconfig}")


def _refuse_other_mounts(config: ClusterConfig, mounts: Sequence[Mount]) -> None:
    if mounts and set(mounts) != set(config.mounts):
        current = ", ".join(f"{mount.source}:{mount.target}" for mount in config.mounts) or "none"
        raise LocalClusterError(f"the running cluster has other mounts ({current}): run `make down` first")


def _start_all(config: ClusterConfig, *, where: Locations, pause: Path) -> None:
    config.save()
    where.data.mkdir(parents=True, exist_ok=True)
    keep_archives([pause], store=config.data / "images", immutable=where.cache)
    with step("control plane", usually="7 s"):
        _start_control_plane(where)
    api = api_client(where)
    with step(f"nodes {', '.join(node.name for node in config.nodes)}", usually="15 s"):
        for node in config.nodes:
            power.ensure_on(config, node)
        for node in config.nodes:
            power.wait_ready(config, node, api=api)
        power.route_services(config)
        power.wait_for_service_account(api)


def _start_control_plane(where: Locations) -> None:
    """Start process 1 if it is not running, wait until the API is ready, and open its port on the machine."""
    if processes.control_plane_init(where.state) is None:
        _write_credentials(where)
        command = processes.new_namespaces(processes.inside_command(CONTROL_PLANE, state=where.state))
        log = where.logs / CONTROL_PLANE / "init.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file, own_folders.created():
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd="/", start_new_session=True,
                env=processes.python_environment(),
            )  # fmt: skip
    _wait_for_control_plane(where)
    if not any(found.name == exposure.API_NAME for found in exposure.running(where.state)):
        listening = _listen_for_api()
        port = listening.getsockname()[1]
        exposure.start(listening, state=where.state, name=exposure.API_NAME, target=f"127.0.0.1:{API_PORT}")
        server = f"https://{exposure.LOOPBACK}:{port}"
        kubeconfig.write(where.kubeconfig, server=server, pki=where.pki, identity="admin")


def _write_credentials(where: Locations) -> None:
    pki.ensure_authority(where.pki)
    pki.ensure_certificates(pki.control_plane_identities(), folder=where.pki)
    (where.state / "Corefile").write_text(control_plane.corefile(where.state))
    audit.write_policy(control_plane.audit_policy_of(where.state))
    inside, outside = f"https://127.0.0.1:{API_PORT}", power.API_URL
    for identity, server in (
        ("controller-manager", inside), ("scheduler", inside), ("coredns", inside), ("kube-proxy", outside),
    ):  # fmt: skip
        path = control_plane.kubeconfig_of(where.state, identity)
        kubeconfig.write(path, server=server, pki=where.pki, identity=identity)


def _wait_for_control_plane(where: Locations) -> None:
    ready = where.state / "control-plane.ready"

    def is_over() -> bool:
        return ready.exists() or read_failure(where.state, CONTROL_PLANE) is not None

    in_time = wait_until(is_over, seconds=CONTROL_PLANE_SECONDS)
    raise_failure(where.state, CONTROL_PLANE)
    if not in_time:
        log = where.logs / CONTROL_PLANE / "init.log"
        raise ComponentFailedError(CONTROL_PLANE, problem=f"is not ready after {CONTROL_PLANE_SECONDS:.0f} s", log=log)


def _listen_for_api() -> socket.socket:
    """Listen on the preferred port, so that kubeconfigs stay valid for the next cluster, or on any free port."""
    try:
        return exposure.listen(PREFERRED_API_PORT)
    except LocalClusterError:
        return exposure.listen(0)


def api_client(where: Locations) -> ApiClient:
    """Return a client of the running cluster.

    Raises:
        LocalClusterError: the cluster is not running.
    """
    for found in exposure.running(where.state):
        if found.name == exposure.API_NAME:
            return ApiClient(host=exposure.LOOPBACK, port=found.local_port, pki=where.pki)
    raise LocalClusterError("the cluster is not running; run `python3 -m epd_local start`")

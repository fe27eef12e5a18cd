"""Process 1 of a node: mounts the node's own folders, then starts containerd, kubelet and kube-proxy.

Each node has its own folders at the standard paths of its programs. So nodes on one machine share no files, and the
programs run with their default paths. All mounts are in the mount namespace of the node and end with it.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from epd_local.cluster import cgroups, kernel, network, node_files, polling
from epd_local.cluster.config import SHARED_FOLDER, ClusterConfig
from epd_local.cluster.control_plane import kubeconfig_of
from epd_local.cluster.images import import_archive, import_images
from epd_local.cluster.nodes import CONTROL_PLANE_IP, Node
from epd_local.cluster.own_folders import OWN_FOLDERS
from epd_local.cluster.processes import COMPONENT_ENVIRONMENT
from epd_local.cluster.supervisor import Components
from epd_local.locations import SOURCES

CONTAINERD_SECONDS = 60.0


def run_node(config: ClusterConfig, node: Node) -> None:
    """Start the node and keep running."""
    socket.sethostname(node.name)
    # Volumes need mounts that propagate from the kubelet to its containers; they stay in the namespace of the node.
    kernel.set_propagation(kernel.MS_SHARED)
    home = config.data / "nodes" / node.name
    _mount_own_folders(config, home=home)
    _cover_sysctls(home / "sysctl")
    _use_cluster_dns(home / "resolv.conf")
    hierarchies = cgroups.hierarchies()
    cgroup = cgroups.create(config.name, node.name, where=hierarchies)
    network.set_up_node(node)
    files = _write_files(config, node, home=home / "etc", cgroup=cgroup)
    components = Components(scope=node.name, state=config.state)
    containerd = components.start("containerd", ["containerd", "--config", str(files["containerd"])])
    components.wait_ready("containerd", containerd, is_ready=_containerd_is_ready, seconds=CONTAINERD_SECONDS)
    import_images(config.data / "images", imported=home / "imported")
    components.start(
        "kubelet",
        node_files.kubelet_arguments(
            node, binary=config.binaries["kubelet"], config=files["kubelet"], kubeconfig=files["kubelet-kubeconfig"]
        ),
    )
    components.start("kube-proxy", [config.binaries["kube-proxy"], "--config", str(files["kube-proxy"]), "--v=1"])
    polling.start(cgroup, roots=hierarchies.roots)
    components.reap_forever()


def import_into(config: ClusterConfig, name: str, *, archives: Sequence[str]) -> None:
    """Import archives into the containerd of a running node."""
    home = config.data / "nodes" / name
    for archive in archives:
        import_archive(Path(archive), imported=home / "imported")


def _mount_own_folders(config: ClusterConfig, *, home: Path) -> None:
    # The files of the cluster itself may be below a folder that is covered here.
    needed = [config.state, config.data, *(Path(binary) for binary in config.binaries.values())]
    needed += [SOURCES, Path(sys.prefix), Path(sys.base_prefix)]
    with ExitStack() as stack:
        held = [stack.enter_context(kernel.opened(mount.source)) for mount in config.mounts]
        kernel.cover(Path("/run"), keep=lambda entry: any(path.is_relative_to(entry) for path in needed))
        if config.mounts:
            shared = Path(SHARED_FOLDER)
            kernel.cover(shared.parent, keep=lambda entry: entry != shared)
            for mount, source in zip(config.mounts, held, strict=True):
                target = Path(mount.target)
                target.mkdir(parents=True)
                kernel.bind(source, target, read_only=True)
    for name in ("lock", "cdi", "containerd"):
        Path("/run", name).mkdir(exist_ok=True)
    for folder in OWN_FOLDERS:
        own = home / folder.relative_to("/")
        own.mkdir(parents=True, exist_ok=True)
        kernel.bind(own, folder)


def _cover_sysctls(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in node_files.KUBELET_SYSCTLS.items():
        shown = folder / name.replace("/", "-")
        shown.write_text(value + "\n")
        target = Path("/proc/sys", name)
        if target.exists():
            kernel.bind(shown, target)


def _use_cluster_dns(shown: Path) -> None:
    """Use the DNS of the cluster, which answers at once for unknown names; the machine's DNS is unreachable."""
    shown.write_text(f"nameserver {CONTROL_PLANE_IP}\n")
    target = Path("/etc/resolv.conf").resolve()
    if not target.exists():  # a link into /run, which is covered
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    kernel.bind(shown, target)


def _write_files(config: ClusterConfig, node: Node, *, home: Path, cgroup: str) -> dict[str, Path]:
    home.mkdir(parents=True, exist_ok=True)
    cni = Path(node_files.CNI_CONFIG_FOLDER)
    cni.mkdir(parents=True, exist_ok=True)
    host = node_files.Host(
        cni_folder=config.cni_folder,
        snapshotter=_snapshotter(home),
        may_raise_oom_priority=kernel.has_capability(kernel.CAP_SYS_RESOURCE),
    )
    proxy = node_files.proxy_config(node, kubeconfig=kubeconfig_of(config.state, "kube-proxy"))
    kubelet = node_files.kubelet_config(
        node, cgroup=cgroup, pki=config.state / "pki", resolv_conf=Path("/etc/resolv.conf")
    )
    _write_json(cni / "10-epd-local.conflist", node_files.cni_config(node))
    (home / "containerd.toml").write_text(node_files.containerd_config(host))
    return {
        "containerd": home / "containerd.toml",
        "kubelet": _write_json(home / "kubelet.json", kubelet),
        "kubelet-kubeconfig": kubeconfig_of(config.state, f"kubelet-{node.name}"),
        "kube-proxy": _write_json(home / "kube-proxy.json", proxy),
    }


def _write_json(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def _snapshotter(folder: Path) -> str:
    """An overlay cannot be on an overlay, for example when the machine is a container: copy layers there."""
    return "native" if kernel.file_system_of(folder) == "overlay" else "overlayfs"


def _containerd_is_ready() -> bool:
    done = subprocess.run(
        ["ctr", "--connect-timeout", "2s", "version"],
        capture_output=True, check=False, env=COMPONENT_ENVIRONMENT,
    )  # fmt: skip
    return done.returncode == 0

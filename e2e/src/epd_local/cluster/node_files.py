"""Configuration files of a node: CNI, containerd, kubelet, kube-proxy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epd_local.cluster.nodes import CLUSTER_DOMAIN, DNS_SERVICE_IP, POD_NETWORK, Node

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CNI_CONFIG_FOLDER = "/etc/cni/net.d"
PAUSE_IMAGE = "docker.io/epd-operator/pause:1"

# The kubelet writes these machine-wide settings at its start. Each node covers them with files that already contain
# these values, so that the settings of the machine do not change.
KUBELET_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


@dataclass(frozen=True)
class Host:
    """Properties of the machine that the configuration of a node depends on."""

    cni_folder: str
    snapshotter: str  # overlayfs, or native if the disk is an overlay
    may_raise_oom_priority: bool  # has CAP_SYS_RESOURCE


def cni_config(node: Node) -> dict[str, Any]:
    """Return the pod network: routed veth pairs, so that Services need no bridge settings."""
    ranges = [[{"subnet": node.pod_network}]]
    ipam = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    plugins = [
        {"type": "ptp", "mtu": 1500, "ipMasq": False, "ipam": ipam},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return {"cniVersion": "0.4.0", "name": "epd-local", "plugins": plugins}


def containerd_config(host: Host) -> str:
    """Return containerd's configuration (version 2, read by containerd 1.6 to 2.x)."""
    # Without CAP_SYS_RESOURCE runc fails when it lowers an OOM score; with this setting containerd does not lower it.
    restrict = "false" if host.may_raise_oom_priority else "true"
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
# It would create a folder in the /opt of the machine.
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
  address = "{CONTAINERD_SOCKET}"

[{cri}]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = {restrict}
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/run/cdi"]

[{cri}.cni]
  bin_dir = "{host.cni_folder}"
  conf_dir = "{CNI_CONFIG_FOLDER}"

[{cri}.containerd]
  snapshotter = "{host.snapshotter}"

[{cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[{cri}.containerd.runtimes.runc.options]
  SystemdCgroup = false
"""


def kubelet_config(node: Node, *, cgroup: str, pki: Path, resolv_conf: Path) -> dict[str, Any]:
    """Return the kubelet's configuration.

    Args:
        node: the node of the kubelet.
        cgroup: cgroup of the node; kubelets with a common cgroup would kill each other's pods as orphans.
        pki: folder of the cluster's certificates.
        resolv_conf: resolv.conf of pods that do not use the DNS of the cluster.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / f"kubelet-{node.name}-serving.crt"),
        "tlsPrivateKeyFile": str(pki / f"kubelet-{node.name}-serving.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [DNS_SERVICE_IP],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": str(resolv_conf),
        "registerWithTaints": node.taints,
        "nodeStatusUpdateFrequency": "4s",
        # There is no registry, so a removed image could not be pulled again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
        },
    }


def kubelet_arguments(node: Node, *, binary: str, config: Path, kubeconfig: Path) -> list[str]:
    """Return the kubelet's command line."""
    command = [binary, "--config", str(config), "--kubeconfig", str(kubeconfig)]
    command += ["--hostname-override", node.name, "--node-ip", node.address, "--v=1"]
    if node.labels:
        command += ["--node-labels", render_labels(node.labels)]
    return command


def render_labels(labels: Mapping[str, str]) -> str:
    """Return labels in the format of the kubelet's flag."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def proxy_config(node: Node, *, kubeconfig: Path) -> dict[str, Any]:
    """Return kube-proxy's configuration."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node.name,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        # Traffic from other addresses, such as the forwarder's, is masqueraded, so that answers take the same path.
        "clusterCIDR": POD_NETWORK,
        # The conntrack table belongs to the machine: do not change its size.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }

"""Configuration files of a node."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from epd_local.cluster import node_files
from epd_local.cluster.nodes import place

GPU_NODE, CPU_NODE = place(["gb200-0", "cpu-0"])
HOST = node_files.Host(cni_folder="/usr/lib/cni", snapshotter="overlayfs", may_raise_oom_priority=True)


def cri(host: node_files.Host) -> dict:
    return tomllib.loads(node_files.containerd_config(host))["plugins"]["io.containerd.grpc.v1.cri"]


def kubelet(node=GPU_NODE) -> dict:
    config = node_files.kubelet_config(
        node, cgroup="/epd/gb200-0", pki=Path("/pki"), resolv_conf=Path("/etc/resolv.conf")
    )
    return json.loads(json.dumps(config))


def test_pods_get_addresses_of_their_node_only():
    ptp = node_files.cni_config(GPU_NODE)["plugins"][0]
    assert ptp["ipam"]["ranges"] == [[{"subnet": GPU_NODE.pod_network}]]


def test_pods_keep_their_address_towards_other_nodes():
    assert node_files.cni_config(GPU_NODE)["plugins"][0]["ipMasq"] is False


@pytest.mark.parametrize(("capable", "restricted"), [(True, False), (False, True)])
def test_oom_scores_are_not_lowered_if_the_machine_does_not_allow_it(capable, restricted):
    host = node_files.Host(cni_folder="/c", snapshotter="overlayfs", may_raise_oom_priority=capable)
    assert cri(host)["restrict_oom_score_adj"] is restricted


def test_containerd_uses_the_snapshotter_and_the_plugins_of_the_machine():
    host = node_files.Host(cni_folder="/opt/cni/bin", snapshotter="native", may_raise_oom_priority=True)
    assert cri(host)["containerd"]["snapshotter"] == "native"
    assert cri(host)["cni"]["bin_dir"] == "/opt/cni/bin"


def test_the_pause_image_has_the_full_name_that_the_runtime_looks_up():
    assert cri(HOST)["sandbox_image"].startswith("docker.io/")


def test_the_kubelet_refuses_anonymous_requests_and_authorizes_others_through_the_api_server():
    assert kubelet()["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet()["authentication"]["webhook"] == {"enabled": True}
    assert kubelet()["authorization"] == {"mode": "Webhook"}


def test_the_kubelet_uses_the_cgroup_of_its_node():
    assert kubelet()["cgroupRoot"] == "/epd/gb200-0"


def test_only_nodes_with_gpus_are_tainted_and_labelled():
    assert kubelet(GPU_NODE)["registerWithTaints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    ]
    assert kubelet(CPU_NODE)["registerWithTaints"] == []
    arguments = {"binary": "kubelet", "config": Path("/c"), "kubeconfig": Path("/k")}
    assert "nvidia.com/gpu.product=NVIDIA-GB200" in node_files.kubelet_arguments(GPU_NODE, **arguments)
    assert "--node-labels" not in node_files.kubelet_arguments(CPU_NODE, **arguments)


def test_kube_proxy_does_not_change_the_size_of_the_connection_table_of_the_machine():
    conntrack = node_files.proxy_config(GPU_NODE, kubeconfig=Path("/k"))["conntrack"]
    assert (conntrack["maxPerCore"], conntrack["min"]) == (0, 0)


def test_several_labels_are_separated_by_commas():
    assert node_files.render_labels({"b": "2", "a": "1"}) == "a=1,b=2"

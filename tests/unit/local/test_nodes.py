"""Names, indexes and addresses of nodes."""

from __future__ import annotations

import ipaddress
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_local.cluster.nodes import (
    CONTROL_PLANE_IP,
    DEFAULT_NODES,
    KINDS,
    NODE_NETWORK_PREFIX,
    POD_NETWORK,
    SERVICE_NETWORK,
    check_name,
    place,
)
from epd_local.errors import LocalClusterError

names = st.builds("{}-{}".format, st.sampled_from(sorted(KINDS)), st.integers(0, 99))


def test_the_default_nodes_have_the_gpus_labels_and_taints_of_the_machines_that_they_simulate():
    seen = {node.name: (node.kind.gpus, node.labels, len(node.taints)) for node in place(DEFAULT_NODES)}
    assert seen == {
        "gb200-0": (4, {"nvidia.com/gpu.product": "NVIDIA-GB200"}, 1),
        "gb200-1": (4, {"nvidia.com/gpu.product": "NVIDIA-GB200"}, 1),
        "rtx-0": (2, {"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"}, 1),
        "cpu-0": (0, {}, 0),
    }


@given(st.lists(names, max_size=100, unique=True))
def test_no_two_nodes_share_an_address_a_pod_network_or_a_link(chosen):
    nodes = place(chosen)
    assert len({node.address for node in nodes} | {CONTROL_PLANE_IP}) == len(nodes) + 1
    assert len({node.pod_network for node in nodes}) == len(nodes)
    assert len({node.link for node in nodes}) == len(nodes)


@given(st.lists(names, min_size=1, max_size=100, unique=True))
def test_every_address_is_in_its_network_and_networks_do_not_overlap(chosen):
    bridge = ipaddress.ip_network(f"{CONTROL_PLANE_IP}/{NODE_NETWORK_PREFIX}", strict=False)
    pods, services = ipaddress.ip_network(POD_NETWORK), ipaddress.ip_network(SERVICE_NETWORK)
    for first, second in itertools.combinations((bridge, pods, services), 2):
        assert not first.overlaps(second)
    for node in place(chosen):
        assert ipaddress.ip_address(node.address) in bridge
        assert ipaddress.ip_network(node.pod_network).subnet_of(pods)
        assert len(node.link) <= 15


@given(st.lists(names, max_size=50), st.lists(names, max_size=50))
def test_nodes_that_exist_keep_their_index_when_others_are_added(first, second):
    before = place(first)
    after = place(second, existing=before)
    assert after[: len(before)] == before
    assert {node.name for node in after} == {*first, *second}


@pytest.mark.parametrize("name", ["", "gb200", "gb200-", "gb200-01", "gb200-100", "h100-0", "GB200-0", "cpu-0 ", "a/b"])
def test_a_name_without_a_known_kind_and_a_number_is_refused_with_examples(name):
    with pytest.raises(LocalClusterError, match="gb200-0, rtx-0, cpu-0"):
        check_name(name)


def test_more_nodes_than_addresses_are_refused():
    many = [f"{kind}-{number}" for kind in ("cpu", "rtx") for number in range(60)]
    with pytest.raises(LocalClusterError, match="100 nodes"):
        place(many)

"""What is kept of Node objects."""

from __future__ import annotations

import copy
import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from epd_operator.objects.nodes import Node, node_of, runtime_class_of


def raw_node(number: int = 0, *, labels: int = 0) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"node-{number}",
            "labels": {f"example.com/label-{i}": f"value-{i}" for i in range(labels)} | {"zone": "a"},
            "managedFields": [{"time": "2026-01-01T00:00:00Z"}],
        },
        "spec": {
            "taints": [
                {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
                {"key": "soft", "effect": "PreferNoSchedule"},
            ]
        },
        "status": {
            "allocatable": {"cpu": "64", "memory": "1Ti", "nvidia.com/gpu": "4", "rdma/ib": "1k"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
            "images": [{"names": [f"registry/image-{number}-{i}"], "sizeBytes": 1} for i in range(3)],
        },
    }


def test_labels_devices_and_hard_taints_are_kept() -> None:
    found = node_of(raw_node())
    assert (found.name, found.labels, found.devices) == (
        "node-0",
        {"zone": "a"},
        {"nvidia.com/gpu": 4, "rdma/ib": 1000},
    )
    assert [str(taint) for taint in found.taints] == ["nvidia.com/gpu=present:NoSchedule"]


def test_heartbeats_and_states_that_pass_change_nothing() -> None:
    later = copy.deepcopy(raw_node())
    later["status"]["conditions"] = [
        {"type": "Ready", "status": "Unknown", "lastHeartbeatTime": "2026-01-02T00:00:00Z"}
    ]
    later["metadata"]["resourceVersion"] = "2"
    later["spec"]["unschedulable"] = True
    for key in (
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unschedulable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "karpenter.sh/disrupted",
        "ToBeDeletedByClusterAutoscaler",
    ):
        later["spec"]["taints"].append({"key": key, "effect": "NoSchedule"})
    assert node_of(later) == node_of(raw_node())


def test_five_thousand_nodes_with_sixty_labels_need_less_than_40_mb() -> None:
    tracemalloc.start()
    try:
        kept = [node_of(raw_node(number, labels=60)) for number in range(5000)]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept) == 5000
    assert size < 40_000_000


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=6,
)


@given(anything, anything, anything)
def test_a_node_of_any_shape_is_read(one: Any, two: Any, three: Any) -> None:
    for raw in (
        {"metadata": one, "spec": two, "status": three},
        {"metadata": {"name": one, "labels": two}, "spec": {"taints": three}, "status": {"allocatable": one}},
        {
            "spec": {"taints": [{"key": one, "value": two, "effect": "NoSchedule"}]},
            "status": {"allocatable": {"a/b": three}},
        },
    ):
        assert isinstance(node_of(raw), Node)
        runtime_class_of({"scheduling": one, **raw})

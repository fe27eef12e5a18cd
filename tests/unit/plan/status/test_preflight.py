"""Whether nodes can run the pods of a spec, and how the message says why not."""

from __future__ import annotations

from typing import Any

import pytest

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import Identity, StageKey
from epd_operator.objects.nodes import Node, Nodes, RuntimeClass, Taint
from epd_operator.plan.observation import Observation
from epd_operator.plan.planner import make_plan
from epd_operator.plan.status.preflight import needs_of, problem_of
from epd_operator.plan.status.problem import Problem
from epd_operator.plan.status.reasons import Reason
from support.specs import spec

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
PRODUCT, ARCH, GPU = "nvidia.com/gpu.product", "kubernetes.io/arch", "nvidia.com/gpu"
GPU_TAINT = Taint(key=GPU, value="present", effect="NoSchedule")
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}


def node(name: str = "a", *taints: Taint, gpus: int = 4, **labels: str) -> Node:
    known = {"product": PRODUCT, "arch": ARCH}
    own = {known.get(key, key): value for key, value in labels.items()}
    return Node(name=name, labels=own, devices={GPU: gpus}, taints=taints)


def gb200(name: str = "gb200", *taints: Taint, gpus: int = 4, arch: str = "arm64") -> Node:
    return node(name, *taints, gpus=gpus, product="NVIDIA-GB200", arch=arch)


def find(
    *nodes: Node,
    worker: dict[str, Any] | None = None,
    pool: dict[str, Any] | None = None,
    pods: tuple[dict[str, Any], ...] = (),
    **classes: RuntimeClass,
) -> Problem | None:
    """The problem of an aggregated deployment; its frontend fits on any node without taints."""
    pools = [{"name": "gb200", "gpu": {"product": "NVIDIA-GB200", "architecture": "arm64"}, **(pool or {})}]
    wanted = spec("Aggregated", pools=pools, worker={"pool": "gb200", **(worker or {})})
    observation = Observation(identity=IDENTITY, generation=1, pods=pods)
    plan = make_plan(wanted, observation=observation)
    needs = needs_of(wanted, rollout=plan.rollout, observation=observation)
    assert len(needs) == 2
    everything = Nodes(nodes=(node("cpu", gpus=0), *nodes), runtime_classes=classes)
    return next((found for need in needs if (found := problem_of(need, nodes=everything))), None)


def test_there_is_no_problem_if_one_node_can_run_the_pods() -> None:
    assert find(gb200(), gb200("other", arch="amd64")) is None


def test_without_a_node_of_the_product_the_message_has_the_products_that_exist() -> None:
    found = find(node("h", product="NVIDIA-H200", arch="arm64"))
    assert found is not None
    assert found.reason is Reason.NO_MATCHING_NODES
    assert found.message.startswith(
        "stage worker, pool gb200: no node has the labels kubernetes.io/arch=arm64, "
        "nvidia.com/gpu.product=NVIDIA-GB200. Nodes that match otherwise have nvidia.com/gpu.product=NVIDIA-H200. "
    )
    assert "autoscaler" in found.message


def test_nodes_of_another_architecture_are_named_as_the_cause() -> None:
    found = find(gb200(arch="amd64"))
    assert found is not None
    assert found.reason is Reason.ARCHITECTURE_DIFFERS
    assert "Nodes that match otherwise have kubernetes.io/arch=amd64. Correct gpu.architecture" in found.message


def test_a_label_that_no_node_has_is_named_if_several_labels_differ() -> None:
    found = find(node("h", product="NVIDIA-H200", arch="amd64"))
    assert found is not None
    assert "None has kubernetes.io/arch=arm64; the nodes have kubernetes.io/arch=amd64." in found.message


def test_a_message_names_at_most_three_values() -> None:
    found = find(*(node(f"n{i}", product=f"GPU-{i}", arch="arm64") for i in range(9)))
    assert found is not None
    assert "nvidia.com/gpu.product=GPU-0, GPU-1, GPU-2, …. " in found.message


def test_without_any_node_the_message_says_so() -> None:
    wanted = spec("Aggregated")
    observation = Observation(identity=IDENTITY, generation=1)
    needs = needs_of(wanted, rollout=make_plan(wanted, observation=observation).rollout, observation=observation)
    found = problem_of(needs[0], nodes=Nodes())
    assert found is not None
    assert found.message.startswith("stage frontend: the cluster has no nodes. ")


def test_several_products_are_searched_and_the_message_has_those_that_exist() -> None:
    h200 = node("h", product="NVIDIA-H200-NVL", arch="amd64")
    assert find(h200, pool={"preset": "H200", "gpu": {}}) is None
    found = find(h200, pool={"preset": "H100", "gpu": {}})
    assert found is not None
    assert "The nodes have nvidia.com/gpu.product=NVIDIA-H200-NVL. Correct gpu.products, the preset or" in found.message


def test_required_node_affinity_is_part_of_the_search() -> None:
    expression = {"key": "rack", "operator": "In", "values": ["r1"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    worker = {"podTemplate": {"affinity": affinity}}
    found = find(gb200(), worker=worker)
    assert found is not None
    assert "and the required node affinity. The nodes have no label rack. Correct gpu.products" in found.message
    labels = {PRODUCT: "NVIDIA-GB200", ARCH: "arm64", "rack": "r1"}
    assert find(Node(name="r", labels=labels, devices={GPU: 1}), worker=worker) is None


@pytest.mark.parametrize(("gpus", "text"), [(0, "match have none"), (1, "match have at most 1 each")])
def test_too_few_devices_on_every_node_are_reported(gpus: int, text: str) -> None:
    found = find(gb200(gpus=gpus), gb200("b", gpus=0), worker={"gpusPerReplica": 2})
    assert found is not None
    assert found.reason is Reason.DEVICES_MISSING
    assert f"pool gb200: one pod needs 2 nvidia.com/gpu, and the nodes that {text}" in found.message


def test_devices_that_no_single_node_has_together_are_reported() -> None:
    labels = {PRODUCT: "NVIDIA-GB200", ARCH: "arm64"}
    rdma = Node(name="rdma", labels=labels, devices={"rdma/ib": 8})
    pool = {"network": {"rdmaResources": ["rdma/ib"]}}
    found = find(gb200(), rdma, pool=pool)
    assert found is not None
    assert "no node that matches has all of 1 nvidia.com/gpu, 1 rdma/ib together" in found.message
    assert find(Node(name="both", labels=labels, devices={"rdma/ib": 8, GPU: 1}), pool=pool) is None


def test_taints_of_all_nodes_that_no_toleration_matches_are_reported() -> None:
    team = Taint(key="team", value="vision", effect="NoExecute")
    found = find(gb200("a", team), gb200("b", team))
    assert found is not None
    assert found.reason is Reason.TAINTS_NOT_TOLERATED
    assert "taints that the pods do not tolerate: team=vision:NoExecute. " in found.message
    assert find(gb200("a", team), gb200("b")) is None


TOLERATIONS: list[tuple[dict[str, Any], bool]] = [
    ({"operator": "Exists"}, True),
    ({"key": "team", "operator": "Exists"}, True),
    ({"key": "team", "value": "vision"}, True),
    ({"key": "team", "operator": "Equal", "value": "vision", "effect": "NoSchedule"}, True),
    ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
    ({"key": "team", "value": "other"}, False),
    ({"key": "other", "operator": "Exists"}, False),
]


@pytest.mark.parametrize(("toleration", "fits"), TOLERATIONS)
def test_tolerations_match_as_in_the_scheduler(toleration: dict[str, Any], fits: bool) -> None:
    tainted = gb200("a", Taint(key="team", value="vision", effect="NoSchedule"))
    assert (find(tainted, pool={"tolerations": [toleration]}) is None) == fits


def test_a_taint_with_the_name_of_the_device_counts_only_if_admission_has_not_added_a_toleration() -> None:
    def pod(*tolerations: dict[str, Any]) -> dict[str, Any]:
        labels = IDENTITY.workload_labels(StageKey(StageName.WORKER))
        return {"metadata": {"name": "p", "labels": labels}, "spec": {"tolerations": list(tolerations)}}

    tainted = gb200("a", GPU_TAINT)
    assert find(tainted) is None
    assert find(tainted, pods=(pod(TOLERATION),)) is None
    found = find(tainted, pods=(pod(),))
    assert found is not None
    assert found.reason is Reason.TAINTS_NOT_TOLERATED


def test_a_missing_runtime_class_is_reported_and_one_that_exists_adds_its_scheduling() -> None:
    worker = {"podTemplate": {"runtimeClassName": "nvidia"}}
    found = find(gb200(), worker=worker)
    assert found is not None
    assert found.reason is Reason.RUNTIME_CLASS_MISSING
    tainted = gb200("a", Taint(key="sandboxed", value="", effect="NoSchedule"))
    tolerates = RuntimeClass(tolerations=({"key": "sandboxed", "operator": "Exists"},))
    assert find(tainted, worker=worker, nvidia=tolerates) is None
    selects = find(gb200(), worker=worker, nvidia=RuntimeClass(selector={"sandbox": "yes"}))
    assert selects is not None
    assert "sandbox=yes" in selects.message

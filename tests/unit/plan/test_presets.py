"""Pools with presets, and with several products."""

from __future__ import annotations

from typing import Any

import pytest

from epd_operator.api.v1alpha1.pools import GpuPreset, Pool
from epd_operator.api.v1alpha1.presets import PRESETS, with_preset
from epd_operator.objects.identity import Identity
from epd_operator.plan.stages.plan_stages import plan_stages
from support.specs import spec

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
ARM_TOLERATION = {"key": "kubernetes.io/arch", "operator": "Equal", "value": "arm64", "effect": "NoSchedule"}


def pod(pool: dict[str, Any], **worker: Any) -> dict[str, Any]:
    """The planned pod of the worker stage."""
    wanted = spec("Aggregated", pools=[{"name": "p", **pool}], worker={"pool": "p", **worker})
    return next(s for s in plan_stages(wanted, identity=IDENTITY) if s.name == "worker").pod_template["spec"]


def terms(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return pod["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def test_two_lines_select_gb200_nodes_and_tolerate_their_taints() -> None:
    found = pod({"preset": "GB200"})
    assert found["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-GB200", "kubernetes.io/arch": "arm64"}
    assert found["tolerations"] == [GPU_TOLERATION, ARM_TOLERATION]
    assert "affinity" not in found


@pytest.mark.parametrize("preset", GpuPreset)
def test_every_preset_selects_nodes_of_its_products_only(preset: GpuPreset) -> None:
    found = pod({"preset": preset})
    known = PRESETS[preset]
    assert found["nodeSelector"]["kubernetes.io/arch"] == known.architecture
    if len(known.products) == 1:
        assert found["nodeSelector"]["nvidia.com/gpu.product"] == known.products[0]
    else:
        expression = {"key": "nvidia.com/gpu.product", "operator": "In", "values": list(known.products)}
        assert terms(found) == [{"matchExpressions": [expression]}]
        assert "nvidia.com/gpu.product" not in found["nodeSelector"]
    assert GPU_TOLERATION in found["tolerations"]


def test_a_preset_is_the_same_as_its_fields_written_out() -> None:
    written = {
        "gpu": {"product": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "architecture": "amd64"},
        "tolerations": [GPU_TOLERATION],
    }
    assert pod({"preset": "RTXPro6000"}) == pod(written)


def test_fields_and_labels_of_the_pool_win() -> None:
    own = {"gpu": {"product": "NVIDIA-GB200-X", "architecture": "amd64", "memory": "1Gi"}, "tolerations": []}
    found = pod({"preset": "GB200", **own})
    assert found["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-GB200-X", "kubernetes.io/arch": "amd64"}
    assert "tolerations" not in found
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200-SHARED", "kubernetes.io/arch": "arm64"}
    found = pod({"preset": "H200", "nodeSelector": labels})
    assert found["nodeSelector"] == labels
    assert "affinity" not in found
    assert ARM_TOLERATION in found["tolerations"]
    slices = "nvidia.com/mig-1g.23gb"
    found = pod({"preset": "GB300", "gpu": {"resourceName": slices}})
    assert found["tolerations"] == [GPU_TOLERATION, {**GPU_TOLERATION, "key": slices}, ARM_TOLERATION]


def test_a_pool_without_a_preset_is_left_as_it_is() -> None:
    pool = Pool.model_validate({"name": "p"})
    assert with_preset(pool) is pool


def test_several_products_are_added_to_every_term_of_the_affinity_of_the_pods() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    rack = {"key": "rack", "operator": "Exists"}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [rack]}}]
    given = {
        "podAntiAffinity": {"x": 1},
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zone]}, {"matchFields": [rack]}, {}]},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        },
    }
    found = pod({"gpu": {"products": ["A", "B"]}}, podTemplate={"affinity": given})
    product = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A", "B"]}
    assert terms(found) == [
        {"matchExpressions": [zone, product]},
        {"matchFields": [rack], "matchExpressions": [product]},
        {},
    ]
    assert found["affinity"]["podAntiAffinity"] == {"x": 1}
    assert found["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred


@pytest.mark.parametrize("given", [{"nodeAffinity": None}, {"nodeAffinity": 7}, {"nodeAffinity": {REQUIRED: []}}])
def test_an_affinity_of_any_shape_is_accepted(given: dict[str, Any]) -> None:
    assert len(terms(pod({"preset": "H100"}, podTemplate={"affinity": given}))) == 1

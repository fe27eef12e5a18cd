"""GPU pools: the nodes on which stages run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from epd_operator.api.markers import ListSet, Rule
from epd_operator.api.v1alpha1.base import ApiModel, DnsLabel, ExtendedResource, LabelValue, Memory, qualified_keys
from epd_operator.api.v1alpha1.network import Network
from epd_operator.api.v1alpha1.pod_template import Toleration

PRODUCT_LABEL = "nvidia.com/gpu.product"
ARCHITECTURE_LABEL = "kubernetes.io/arch"


class Architecture(StrEnum):
    """CPU architecture of a pool's nodes, as in the label kubernetes.io/arch."""

    AMD64 = "amd64"
    ARM64 = "arm64"


class GpuPreset(StrEnum):
    """GPUs whose nodes are known: api/v1alpha1/presets.py."""

    GB200 = "GB200"
    GB300 = "GB300"
    H100 = "H100"
    H200 = "H200"
    RTX_PRO_6000 = "RTXPro6000"
    RTX_6000D = "RTX6000D"


class Gpu(ApiModel):
    """The GPU of a pool's nodes."""

    product: Annotated[LabelValue, Field(min_length=1)] | None = Field(
        default=None,
        description="Product name as GPU feature discovery writes it into the node label nvidia.com/gpu.product, "
        "such as NVIDIA-GB200. Pods are placed on nodes with this label.",
    )
    products: (
        Annotated[list[Annotated[LabelValue, Field(min_length=1)]], Field(min_length=1, max_length=8), ListSet()] | None
    ) = Field(
        default=None,
        description="Several product names instead of one: pods are placed on nodes with any of them.",
    )
    memory: Memory | None = Field(default=None, description="Memory of one GPU, such as 186Gi.")
    architecture: Architecture | None = Field(
        default=None, description="CPU architecture of the nodes, such as arm64 for GB200 or amd64 for RTX hosts."
    )
    resource_name: ExtendedResource = Field(
        default="nvidia.com/gpu", description="Extended resource that pods request, one per GPU."
    )

    rules = (
        Rule(
            expression="!has(self.product) || !has(self.products)",
            message="set product or products, not both: add the product to products, or remove products",
            field_path=".products",
        ),
    )


def _same_as_label(field: str, *, label: str) -> Rule:
    """The rule that a node label that is set in both gpu and nodeSelector has the same value in both."""
    return Rule(
        expression=f"!has(self.gpu.{field}) || !has(self.nodeSelector) || !('{label}' in self.nodeSelector) "
        f"|| self.nodeSelector['{label}'] == self.gpu.{field}",
        message=f"gpu.{field} already selects nodes by the label {label}, but nodeSelector has another value, so no "
        "node matches: remove the label from nodeSelector",
        field_path=".nodeSelector",
    )


class Pool(ApiModel):
    """A set of nodes with the same kind of GPU."""

    name: DnsLabel = Field(description="Name of the pool, for the field pool of stages.")
    preset: GpuPreset | None = Field(
        default=None,
        description="A known GPU. It sets gpu.products, gpu.architecture and tolerations where they, or labels in "
        "nodeSelector, do not.",
    )
    node_selector: Annotated[dict[str, LabelValue], Field(max_length=16)] | None = Field(
        default=None, description="Labels of the nodes."
    )
    tolerations: Annotated[list[Toleration], Field(max_length=16)] | None = Field(
        default=None, description="Tolerations for the nodes' taints."
    )
    gpu: Gpu = Field(default_factory=Gpu, description="The GPU of the nodes.")
    network: Network | None = Field(
        default=None, description="Network of the nodes, where it differs from that of other pools."
    )

    rules = (
        qualified_keys("nodeSelector"),
        _same_as_label("product", label=PRODUCT_LABEL),
        _same_as_label("architecture", label=ARCHITECTURE_LABEL),
        Rule(
            expression="!has(self.gpu.products) || !has(self.nodeSelector) "
            f"|| !('{PRODUCT_LABEL}' in self.nodeSelector)",
            message=f"gpu.products already selects nodes by the label {PRODUCT_LABEL}: remove the label from "
            "nodeSelector",
            field_path=".nodeSelector",
        ),
    )

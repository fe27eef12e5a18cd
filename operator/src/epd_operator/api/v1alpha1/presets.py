"""What is known of the nodes of common GPUs, so that a pool need not repeat it.

The products are values of the node label nvidia.com/gpu.product. GPU feature discovery writes the name that the driver
reports, with dashes for spaces: https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md.
Not one of them has been seen on a node by this project; docs/gpu-clusters.md names the source of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from epd_operator.api.v1alpha1.pod_template import Toleration
from epd_operator.api.v1alpha1.pools import ARCHITECTURE_LABEL, PRODUCT_LABEL, Architecture, GpuPreset, Pool

GPU_TAINT = "nvidia.com/gpu"


@dataclass(frozen=True, kw_only=True)
class GpuNodes:
    """Nodes with one kind of GPU.

    Attributes:
        products: their values of the label nvidia.com/gpu.product.
        architecture: their usual CPU architecture.
    """

    products: tuple[str, ...]
    architecture: Architecture


PRESETS: Mapping[GpuPreset, GpuNodes] = {
    GpuPreset.GB200: GpuNodes(products=("NVIDIA-GB200",), architecture=Architecture.ARM64),
    GpuPreset.GB300: GpuNodes(products=("NVIDIA-GB300",), architecture=Architecture.ARM64),
    GpuPreset.H100: GpuNodes(
        products=("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-NVL", "NVIDIA-H100-PCIe"), architecture=Architecture.AMD64
    ),
    GpuPreset.H200: GpuNodes(products=("NVIDIA-H200", "NVIDIA-H200-NVL"), architecture=Architecture.AMD64),
    GpuPreset.RTX_PRO_6000: GpuNodes(
        products=("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",), architecture=Architecture.AMD64
    ),
    GpuPreset.RTX_6000D: GpuNodes(products=("NVIDIA-RTX-6000D",), architecture=Architecture.AMD64),
}


def with_preset(pool: Pool) -> Pool:
    """The pool with what its preset adds; every field and label that the pool sets itself is kept."""
    if pool.preset is None:
        return pool
    nodes, gpu, labels = PRESETS[pool.preset], pool.gpu, pool.node_selector or {}
    added: dict[str, object] = {}
    if gpu.product is None and gpu.products is None and PRODUCT_LABEL not in labels:
        added["products"] = list(nodes.products)
    architecture = gpu.architecture or labels.get(ARCHITECTURE_LABEL)
    if architecture is None:
        architecture = added["architecture"] = nodes.architecture
    tolerations = pool.tolerations
    if tolerations is None:
        tolerations = _tolerations(gpu.resource_name, architecture=architecture)
    return pool.model_copy(update={"gpu": gpu.model_copy(update=added), "tolerations": tolerations})


def _tolerations(resource: str, *, architecture: str) -> list[Toleration]:
    """Tolerations of the taints that platforms give such nodes.

    nvidia.com/gpu is what the NVIDIA GPU operator tolerates by default:
    https://github.com/NVIDIA/gpu-operator/blob/main/deployments/gpu-operator/values.yaml. A taint with the name of the
    resource: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/. GKE taints arm64 nodes:
    https://cloud.google.com/kubernetes-engine/docs/how-to/prepare-arm-workloads-for-deployment.
    """
    devices = dict.fromkeys((GPU_TAINT, resource))
    tolerations = [Toleration(key=key, operator="Exists", effect="NoSchedule") for key in devices]
    if architecture == Architecture.ARM64:
        arm = Toleration(key=ARCHITECTURE_LABEL, operator="Equal", value=architecture, effect="NoSchedule")
        tolerations.append(arm)
    return tolerations

"""GPUs: on which nodes a pod runs, and which devices and how much shared memory it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from epd_operator.api.untyped import items, mapping
from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec
from epd_operator.api.v1alpha1.network import Network
from epd_operator.api.v1alpha1.pod_template import SHARED_MEMORY_PATH, Toleration
from epd_operator.api.v1alpha1.pools import ARCHITECTURE_LABEL, PRODUCT_LABEL, Pool
from epd_operator.api.v1alpha1.presets import with_preset
from epd_operator.api.v1alpha1.stages import Group, GroupEncoder
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.backends.dynamo import Role
from epd_operator.objects.quantities import to_bytes

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, kw_only=True)
class Placement:
    """On which nodes a pod runs and which devices it owns.

    Attributes:
        pool: the pool of nodes; None for a pod without GPUs.
        gpus: GPUs of the pod.
        shared_memory: size of /dev/shm as a quantity; None for the default of the container runtime.
        node_selector: labels of the nodes; those of the pool take precedence.
        tolerations: tolerations in addition to those of the pool.
        network: transports, network devices and RDMA devices of the pod.
    """

    pool: Pool | None = None
    gpus: int = 0
    shared_memory: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Toleration] = ()
    network: Network = field(default_factory=Network)

    def limits(self) -> dict[str, str]:
        """GPUs as extended resources of the container that owns them."""
        return {self.pool.gpu.resource_name: str(self.gpus)} if self.pool is not None and self.gpus else {}

    def scheduling(self) -> dict[str, Any]:
        """The fields of a pod's spec that select nodes."""
        selector = {**self.node_selector, **_labels_of_nodes(self.pool)}
        scheduling: dict[str, Any] = {"nodeSelector": selector} if selector else {}
        tolerations = [*(self.pool.tolerations or () if self.pool is not None else ()), *self.tolerations]
        if tolerations:
            scheduling["tolerations"] = [
                t.model_dump(by_alias=True, exclude_none=True, mode="json") for t in tolerations
            ]
        return scheduling

    def affinity(self, given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The affinity of a pod: the given one, and one of the products if the pool has several."""
        products = self.pool.gpu.products or [] if self.pool is not None else []
        if len(products) < 2:
            return given
        expression = {"key": PRODUCT_LABEL, "operator": "In", "values": products}
        return _with_required(mapping(given), expression)

    def volumes(self) -> list[dict[str, Any]]:
        """The volume for shared memory, if a size is given."""
        if self.shared_memory is None:
            return []
        return [{"name": "epd-shm", "emptyDir": {"medium": "Memory", "sizeLimit": self.shared_memory}}]

    def volume_mounts(self) -> list[dict[str, Any]]:
        """Where containers mount that volume."""
        return [] if self.shared_memory is None else [{"name": "epd-shm", "mountPath": SHARED_MEMORY_PATH}]


def mps_limits(group: Group, *, role: Role) -> dict[str, str]:
    """What a process of a group may use of the shared GPU.

    https://docs.nvidia.com/deploy/mps/appendix-tools-and-interface-reference.html
    """
    settings = group.encoder if role is Role.ENCODER else group.pd
    limits = {}
    if settings.gpu_thread_percent is not None:
        limits["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(settings.gpu_thread_percent)
    if isinstance(settings, GroupEncoder) and settings.gpu_memory_limit is not None:
        # Number of the GPU in the container, and MiB.
        limits["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={to_bytes(settings.gpu_memory_limit) // 1024**2}M"
    return limits


def _labels_of_nodes(pool: Pool | None) -> dict[str, str]:
    if pool is None:
        return {}
    labels = dict(pool.node_selector or {})
    product = pool.gpu.product or (pool.gpu.products[0] if pool.gpu.products and len(pool.gpu.products) == 1 else None)
    if product is not None:
        labels[PRODUCT_LABEL] = product
    if pool.gpu.architecture is not None:
        labels[ARCHITECTURE_LABEL] = pool.gpu.architecture
    return labels


def _with_required(affinity: Mapping[str, Any], expression: Mapping[str, Any]) -> dict[str, Any]:
    """The affinity with one more condition. One term is enough, so each gets it; an empty one matches nothing."""
    node = mapping(affinity.get("nodeAffinity"))
    required = mapping(node.get(_REQUIRED))
    terms = [
        {**term, "matchExpressions": [*items(term.get("matchExpressions")), expression]} if term else term
        for term in items(required.get("nodeSelectorTerms"))
    ] or [{"matchExpressions": [expression]}]
    return {**affinity, "nodeAffinity": {**node, _REQUIRED: {**required, "nodeSelectorTerms": terms}}}


def pool_named(spec: EPDDeploymentSpec, *, stage: StageName, name: str) -> Pool:
    """The pool of that name, with what its preset adds.

    Raises:
        ValueError: the spec has no such pool; the message names the stage's field.
    """
    for pool in spec.pools:
        if pool.name == name:
            return with_preset(pool)
    raise ValueError(f"spec.{stage}.pool: spec.pools has no pool {name!r}: add the pool, or correct the name")

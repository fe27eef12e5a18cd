"""GPUs: on which nodes a pod runs, and which devices and how much shared memory it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec
from epd_operator.api.v1alpha1.pod_template import SHARED_MEMORY_PATH
from epd_operator.api.v1alpha1.pools import ARCHITECTURE_LABEL, PRODUCT_LABEL, Pool
from epd_operator.api.v1alpha1.topology import StageName


@dataclass(frozen=True, kw_only=True)
class Placement:
    """On which nodes a pod runs and which devices it owns.

    Attributes:
        pool: the pool of nodes; None for a pod without GPUs.
        gpus: GPUs of the pod.
        shared_memory: size of /dev/shm as a quantity; None for the default of the container runtime.
    """

    pool: Pool | None = None
    gpus: int = 0
    shared_memory: str | None = None

    def limits(self) -> dict[str, str]:
        """GPUs as extended resources of the container that owns them."""
        return {self.pool.gpu.resource_name: str(self.gpus)} if self.pool is not None and self.gpus else {}

    def scheduling(self) -> dict[str, Any]:
        """The fields of a pod's spec that select nodes."""
        if self.pool is None:
            return {}
        selector = dict(self.pool.node_selector or {})
        if self.pool.gpu.product is not None:
            selector[PRODUCT_LABEL] = self.pool.gpu.product
        if self.pool.gpu.architecture is not None:
            selector[ARCHITECTURE_LABEL] = self.pool.gpu.architecture
        scheduling: dict[str, Any] = {"nodeSelector": selector} if selector else {}
        if self.pool.tolerations:
            scheduling["tolerations"] = [
                t.model_dump(by_alias=True, exclude_none=True, mode="json") for t in self.pool.tolerations
            ]
        return scheduling

    def volumes(self) -> list[dict[str, Any]]:
        """The volume for shared memory, if a size is given."""
        if self.shared_memory is None:
            return []
        return [{"name": "epd-shm", "emptyDir": {"medium": "Memory", "sizeLimit": self.shared_memory}}]

    def volume_mounts(self) -> list[dict[str, Any]]:
        """Where containers mount that volume."""
        return [] if self.shared_memory is None else [{"name": "epd-shm", "mountPath": SHARED_MEMORY_PATH}]


def pool_named(spec: EPDDeploymentSpec, *, stage: StageName, name: str) -> Pool:
    """The pool of that name.

    Raises:
        ValueError: the spec has no such pool; the message names the stage's field.
    """
    for pool in spec.pools:
        if pool.name == name:
            return pool
    raise ValueError(f"spec.{stage}.pool: spec.pools has no pool {name!r}: add the pool, or correct the name")

"""Transfer of embeddings between pods: UCX below NIXL, and RDMA devices."""

from __future__ import annotations

from typing import Any

from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec, LockedMemory, Transfer
from epd_operator.api.v1alpha1.network import Network
from epd_operator.api.v1alpha1.stages import Stage

_IPC_LOCK = "IPC_LOCK"
"""RDMA locks the memory that it reads and writes, and this lifts the limit of locked memory.

Only for root: Kubernetes sets no ambient capabilities (https://github.com/kubernetes/kubernetes/issues/56374), so the
capability would have no effect for another user. https://github.com/NVIDIA/nvidia-container-toolkit/issues/2037
"""
_ROOT = {"runAsUser": 0, "runAsNonRoot": False}


def network_of(spec: EPDDeploymentSpec, *, stage: Stage) -> Network:
    """The network of a stage: its own settings, then those of its pool, then those of ``spec.transfer``."""
    pool = next((pool for pool in spec.pools if pool.name == getattr(stage, "pool", None)), None)
    resource = spec.transfer.rdma_resource
    found = Network(
        transports=spec.transfer.ucx.transports,
        devices=spec.transfer.ucx.devices,
        rdma_resources=None if resource is None else [resource],
    )
    for override in (pool.network if pool is not None else None, stage.network):
        if override is not None:
            found = found.model_copy(update=dict(override.model_dump(exclude_none=True)))
    return found


def ucx_environment(network: Network) -> dict[str, str]:
    """Variables that restrict UCX to the transports and network devices of a stage.

    https://openucx.readthedocs.io/en/master/faq.html
    """
    env = {"UCX_TLS": ",".join(network.transports or ())}
    if network.devices:
        env["UCX_NET_DEVICES"] = ",".join(network.devices)
    if network.gid_index is not None:
        env["UCX_IB_GID_INDEX"] = str(network.gid_index)
    return env


def rdma_limits(network: Network, *, gpus: int) -> dict[str, str]:
    """One RDMA device of each kind per GPU, as extended resources; nothing for a pod without GPUs."""
    return dict.fromkeys(network.rdma_resources or (), str(gpus)) if gpus else {}


def security_context(transfer: Transfer, *, network: Network, gpus: int) -> dict[str, Any]:
    """Security context of a container with this number of GPUs, and so of RDMA devices."""
    context: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if not rdma_limits(network, gpus=gpus) or transfer.locked_memory is not LockedMemory.ROOT:
        return context
    return {**context, "capabilities": {"drop": ["ALL"], "add": [_IPC_LOCK]}, **_ROOT}

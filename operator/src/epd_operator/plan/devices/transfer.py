"""Transfer of embeddings between pods: UCX below NIXL, and RDMA devices."""

from __future__ import annotations

from typing import Any

from epd_operator.api.v1alpha1.epddeployment import LockedMemory, Transfer

_IPC_LOCK = "IPC_LOCK"
"""RDMA locks the memory that it reads and writes, and this lifts the limit of locked memory.

Only for root: Kubernetes sets no ambient capabilities (https://github.com/kubernetes/kubernetes/issues/56374), so the
capability would have no effect for another user. https://github.com/NVIDIA/nvidia-container-toolkit/issues/2037
"""
_ROOT = {"runAsUser": 0, "runAsNonRoot": False}


def ucx_environment(transfer: Transfer) -> dict[str, str]:
    """Variables that restrict UCX to the transports and network devices of the spec."""
    env = {"UCX_TLS": ",".join(transfer.ucx.transports)}
    if transfer.ucx.devices:
        env["UCX_NET_DEVICES"] = ",".join(transfer.ucx.devices)
    return env


def rdma_limits(transfer: Transfer, *, gpus: int) -> dict[str, str]:
    """One RDMA device per GPU, as an extended resource; nothing for a pod without GPUs."""
    return {transfer.rdma_resource: str(gpus)} if transfer.rdma_resource is not None and gpus else {}


def security_context(transfer: Transfer, *, gpus: int) -> dict[str, Any]:
    """Security context of a container with this number of GPUs, and so of RDMA devices."""
    context: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if not rdma_limits(transfer, gpus=gpus) or transfer.locked_memory is not LockedMemory.ROOT:
        return context
    return {**context, "capabilities": {"drop": ["ALL"], "add": [_IPC_LOCK]}, **_ROOT}

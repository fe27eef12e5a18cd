"""Transfer of embeddings between pods: UCX below NIXL, and RDMA devices."""

from __future__ import annotations

from epd_operator.api.v1alpha1.epddeployment import Transfer

RDMA_CAPABILITIES = ("IPC_LOCK",)
"""Pinned memory for RDMA registrations exceeds the default limit of locked memory."""


def ucx_environment(transfer: Transfer) -> dict[str, str]:
    """Variables that restrict UCX to the transports and network devices of the spec."""
    env = {"UCX_TLS": ",".join(transfer.ucx.transports)}
    if transfer.ucx.devices:
        env["UCX_NET_DEVICES"] = ",".join(transfer.ucx.devices)
    return env


def rdma_limits(transfer: Transfer, *, gpus: int) -> dict[str, str]:
    """One RDMA device per GPU, as an extended resource; nothing for a pod without GPUs."""
    return {transfer.rdma_resource: str(gpus)} if transfer.rdma_resource is not None and gpus else {}


def rdma_capabilities(transfer: Transfer, *, gpus: int) -> list[str]:
    """Linux capabilities that the container with the RDMA devices needs."""
    return list(RDMA_CAPABILITIES) if rdma_limits(transfer, gpus=gpus) else []

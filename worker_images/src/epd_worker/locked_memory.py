"""How much memory this container may lock. RDMA locks the memory that it reads and writes.

Kubernetes has no setting for the limit: a container has that of its container runtime, 8 MiB with containerd's usual
systemd unit. The capability IPC_LOCK lifts it, but is effective only for root, because Kubernetes sets no ambient
capabilities (measured in https://github.com/NVIDIA/nvidia-container-toolkit/issues/2037). If the limit is too low, UCX
fails with ENOMEM, or uses TCP without saying so.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

RDMA_DEVICES = Path("/dev/infiniband")
"""Where a device plugin puts the devices of RDMA, also with RoCE."""
NEEDED = 1024**3
"""Bytes below which the launcher refuses to start: the embeddings of one request with many images."""
_RDMA_TRANSPORTS = ("rc", "ud", "dc", "ib", "all")
_IPC_LOCK = 14
"""Number of the capability: include/uapi/linux/capability.h."""


@dataclass(frozen=True)
class LockedMemory:
    """What the kernel allows this process. `limit` is in bytes; None means no limit."""

    limit: int | None

    def __str__(self) -> str:
        """For logs and messages."""
        if self.limit is None:
            return "without a limit"
        return f"{self.limit / 1024**2:.4g} MiB"


def allowed(
    *,
    status: Path = Path("/proc/self/status"),
    limits: Callable[[int], tuple[int, int]] = resource.getrlimit,
) -> LockedMemory:
    """What this process may lock, after `raise_limit`."""
    capabilities = dict(line.split(":", 1) for line in status.read_text().splitlines() if line.startswith("Cap"))
    if int(capabilities["CapEff"], 16) >> _IPC_LOCK & 1:
        return LockedMemory(limit=None)
    soft, _ = limits(resource.RLIMIT_MEMLOCK)
    return LockedMemory(limit=None if soft == resource.RLIM_INFINITY else soft)


def raise_limit() -> None:
    """Raise the soft limit to the hard limit, which every process may do. Child processes inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))


def uses_rdma(environment: Mapping[str, str], *, devices: Path) -> bool:
    """Whether this container has RDMA devices and may use them."""
    transports = environment.get("UCX_TLS", "all").split(",")
    return any(name.startswith(_RDMA_TRANSPORTS) for name in transports) and any(devices.glob("uverbs*"))


def problem(memory: LockedMemory) -> str | None:
    """Why RDMA cannot work, and what to do; None if it can."""
    if memory.limit is None or memory.limit >= NEEDED:
        return None
    return (
        f"RDMA memory cannot be registered: this container may lock {memory}, and RDMA needs {NEEDED // 1024**3} GiB or"
        " more. Set LimitMEMLOCK=infinity for containerd on the node and restart it, or set"
        " transfer.lockedMemory to Root. To use TCP, remove rc and the other RDMA transports from"
        " transfer.ucx.transports, and transfer.rdmaResource"
    )

"""Reads and writes the Lease of the leader election. A write fails if another client changed the Lease since the read.

Other clients can edit the Lease, so each field may be missing or invalid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from epd_operator.api.untyped import mapping
from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import UnavailableError
from epd_operator.objects.kinds import Kind

LEASE = Kind(kind="Lease", api_version="coordination.k8s.io/v1", plural="leases")
MAX_INT32 = 2**31 - 1
"""Largest integer that the API accepts in a Lease."""


@dataclass(frozen=True, kw_only=True)
class LeaseRecord:
    """Content of a Lease. Missing and invalid fields are empty or 0.

    Attributes:
        holder: identity of the candidate that holds the Lease; empty if it was released.
        duration_seconds: time without a change after which other candidates may acquire the Lease.
        acquired: time when the holder acquired it, RFC 3339, by the holder's clock.
        renewed: time of the last renewal, by the holder's clock. For humans only: the election never compares clocks of
            different machines.
        transitions: number of changes of the holder.
    """

    holder: str = ""
    duration_seconds: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0


@dataclass(frozen=True, kw_only=True)
class Lease:
    """A Lease, as read from the API server.

    Attributes:
        version: its resourceVersion, which changes with every write.
        record: its content.
        metadata: its metadata, which writes keep.
    """

    version: str
    record: LeaseRecord
    metadata: Mapping[str, Any]


class LeaseStore(Protocol):
    """Storage of the Lease."""

    async def read(self) -> Lease | None:
        """The Lease, or None if it does not exist."""

    async def write(self, record: LeaseRecord, *, previous: Lease | None) -> Lease:
        """Replace the Lease that was read before, or create it if there was none."""


class ClusterLeaseStore:
    """Stores the Lease at the API server."""

    def __init__(self, cluster: Cluster, *, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name

    async def read(self) -> Lease | None:
        """The Lease, or None if it does not exist.

        Raises:
            ClusterError: the Lease could not be read.
        """
        found = await self._cluster.get(LEASE, namespace=self._namespace, name=self._name)
        return None if found is None else _parse_lease(found)

    async def write(self, record: LeaseRecord, *, previous: Lease | None) -> Lease:
        """Replace the Lease that was read before, or create it if there was none.

        Raises:
            ConflictError: another client changed or created the Lease in the meantime.
            ClusterError: the write failed, or it succeeded but the answer was lost.
        """
        metadata = {"name": self._name, "namespace": self._namespace}
        body: dict[str, Any] = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "spec": _to_spec(record)}
        if previous is None:
            created = await self._cluster.create(LEASE, namespace=self._namespace, body={**body, "metadata": metadata})
            return _parse_lease(created)
        return _parse_lease(
            await self._cluster.replace(LEASE, body={**body, "metadata": {**previous.metadata, **metadata}})
        )


def _to_spec(record: LeaseRecord) -> dict[str, Any]:
    fields = {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration_seconds,
        "acquireTime": record.acquired,
        "renewTime": record.renewed,
        "leaseTransitions": record.transitions,
    }
    return {name: value for name, value in fields.items() if value != "" or name == "holderIdentity"}


def _parse_lease(body: Mapping[str, Any]) -> Lease:
    metadata, spec = mapping(body.get("metadata")), mapping(body.get("spec"))
    version = _text(metadata.get("resourceVersion"))
    if not version:
        # Without a version, the next write would overwrite changes of other clients.
        raise UnavailableError("the answer is not a Lease: it has no resourceVersion", request="GET lease")
    record = LeaseRecord(
        holder=_text(spec.get("holderIdentity")),
        duration_seconds=_number(spec.get("leaseDurationSeconds")),
        acquired=_text(spec.get("acquireTime")),
        renewed=_text(spec.get("renewTime")),
        transitions=_number(spec.get("leaseTransitions")),
    )
    return Lease(version=version, record=record, metadata=metadata)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return min(max(value, 0), MAX_INT32)

"""The Lease by which replicas agree who works. Every write names the version that it replaces.

What stands in a Lease is never trusted: strangers may edit it, so every field may be missing or nonsense.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import UnavailableError
from epd_operator.objects.kinds import Kind

LEASE = Kind(kind="Lease", api_version="coordination.k8s.io/v1", plural="leases")
LARGEST = 2**31 - 1
"""Of the API's 32-bit integers."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a Lease says; empty and 0 where it says nothing that can be understood.

    Attributes:
        holder: identity of the candidate that holds it.
        duration_seconds: how long others wait from the last change that they saw.
        acquired: when the holder took it, RFC 3339, by the holder's clock.
        renewed: when the holder wrote it, by the holder's clock. For people only.
        transitions: how often it changed hands.
    """

    holder: str = ""
    duration_seconds: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0


@dataclass(frozen=True, kw_only=True)
class Lease:
    """A Lease as it was read.

    Attributes:
        version: its resourceVersion, which every write changes.
        record: what it says.
        metadata: labels and the like, to be kept.
    """

    version: str
    record: Record
    metadata: Mapping[str, Any]


class LeaseStore(Protocol):
    """Where the Lease is kept."""

    async def read(self) -> Lease | None:
        """The Lease, or None where there is none."""

    async def write(self, record: Record, *, over: Lease | None) -> Lease:
        """Write the record in place of what was read; None creates the Lease."""


class ClusterLeases:
    """One Lease at the API server."""

    def __init__(self, cluster: Cluster, *, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name

    async def read(self) -> Lease | None:
        """The Lease, or None where there is none.

        Raises:
            ClusterError: it could not be read.
        """
        found = await self._cluster.get(LEASE, namespace=self._namespace, name=self._name)
        return None if found is None else _lease(found)

    async def write(self, record: Record, *, over: Lease | None) -> Lease:
        """Write the record in place of what was read; None creates the Lease.

        Raises:
            ConflictError: somebody else wrote since.
            ClusterError: it could not be written, or perhaps it was and the answer got lost.
        """
        metadata = {"name": self._name, "namespace": self._namespace}
        body: dict[str, Any] = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "spec": _spec(record)}
        if over is None:
            created = await self._cluster.create(LEASE, namespace=self._namespace, body={**body, "metadata": metadata})
            return _lease(created)
        return _lease(await self._cluster.replace(LEASE, body={**body, "metadata": {**over.metadata, **metadata}}))


def _spec(record: Record) -> dict[str, Any]:
    fields = {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration_seconds,
        "acquireTime": record.acquired,
        "renewTime": record.renewed,
        "leaseTransitions": record.transitions,
    }
    return {name: value for name, value in fields.items() if value != "" or name == "holderIdentity"}


def _lease(body: Mapping[str, Any]) -> Lease:
    metadata, spec = _mapping(body.get("metadata")), _mapping(body.get("spec"))
    version = _text(metadata.get("resourceVersion"))
    if not version:
        # A write without a version would replace whatever is there.
        raise UnavailableError("the answer is no Lease: it has no resourceVersion", request="GET lease")
    record = Record(
        holder=_text(spec.get("holderIdentity")),
        duration_seconds=_number(spec.get("leaseDurationSeconds")),
        acquired=_text(spec.get("acquireTime")),
        renewed=_text(spec.get("renewTime")),
        transitions=_number(spec.get("leaseTransitions")),
    )
    return Lease(version=version, record=record, metadata=metadata)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return min(max(value, 0), LARGEST)

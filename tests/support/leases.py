"""A Lease in memory, with the API server's rule: a write holds only if nobody else wrote since."""

from __future__ import annotations

from dataclasses import replace

from epd_operator.cluster.errors import ConflictError, NotFoundError
from epd_operator.cluster.lease import Lease, Record


class MemoryLease:
    """The Lease at the server.

    Attributes:
        lease: the Lease, or None where there is none.
    """

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self._versions = 0

    def put(self, record: Record) -> Lease:
        """Store a record, whoever wrote before; one that changes nothing keeps its version, as at the API server."""
        if self.lease is None or self.lease.record != record:
            self._versions += 1
            self.lease = Lease(version=str(self._versions), record=record, metadata={})
        return self.lease

    def edit(self, **fields: object) -> None:
        """Somebody else changes fields."""
        if self.lease is not None:
            self.put(replace(self.lease.record, **fields))  # type: ignore[arg-type]

    def write(self, record: Record, *, over: Lease | None) -> Lease:
        """Write over a version."""
        if over is None and self.lease is not None:
            raise ConflictError("exists", request="CREATE", status=409)
        if over is not None:
            if self.lease is None:
                raise NotFoundError("gone", request="PUT", status=404)
            if over.version != self.lease.version:
                raise ConflictError("changed", request="PUT", status=409)
        return self.put(record)

"""A Lease in memory, with the rule of the API server: a write fails if another client wrote since the read."""

from __future__ import annotations

from dataclasses import replace

from epd_operator.cluster.errors import ConflictError, NotFoundError
from epd_operator.cluster.lease import Lease, LeaseRecord


class MemoryLease:
    """The Lease at the server.

    Attributes:
        lease: the Lease, or None if it does not exist.
    """

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self._versions = 0

    def put(self, record: LeaseRecord) -> Lease:
        """Store a record without a check; an unchanged record keeps its version, as at the API server."""
        if self.lease is None or self.lease.record != record:
            self._versions += 1
            self.lease = Lease(version=str(self._versions), record=record, metadata={})
        return self.lease

    def edit(self, **fields: object) -> None:
        """Change fields, as another client."""
        if self.lease is not None:
            self.put(replace(self.lease.record, **fields))  # type: ignore[arg-type]

    def write(self, record: LeaseRecord, *, previous: Lease | None) -> Lease:
        """Replace a version, or create the Lease."""
        if previous is None and self.lease is not None:
            raise ConflictError("exists", request="CREATE", status=409)
        if previous is not None:
            if self.lease is None:
                raise NotFoundError("gone", request="PUT", status=404)
            if previous.version != self.lease.version:
                raise ConflictError("changed", request="PUT", status=409)
        return self.put(record)

"""The requests of the operator to the store: the same methods as `epd_operator.cluster.client.Cluster`, with faults."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from epd_operator.cluster.errors import ConflictError, FaultError, UnavailableError
from epd_operator.objects.kinds import CORE_EVENT, Kind
from epd_operator.plan.observation import ChildKey
from support.model.store import Object, Store


class KilledError(BaseException):
    """The process of the operator ends here."""


class Fault(StrEnum):
    """What happens to one request."""

    CONFLICT = "409"
    INTERNAL = "500"
    UNAVAILABLE = "503"
    LOST_ANSWER = "the answer is lost"
    KILLED_BEFORE = "killed before the request"
    KILLED_AFTER = "killed after the request"


@dataclass(frozen=True, kw_only=True)
class Disturbance:
    """What happens to the requests of one reconcile.

    Attributes:
        fault: of one request; None: of none.
        number: which request; writes are counted apart from reads.
        of_writes: whether it is a write.
        lags: how many writes of others a read of a kind may lack, by kind.
    """

    fault: Fault | None = None
    number: int = 0
    of_writes: bool = True
    lags: Mapping[str, int] = field(default_factory=dict)


Written = Callable[[str, ChildKey, Object | None, Object | None], None]
"""Is called after every write that changed something, with verb, key, the object before and after."""


class ModelCluster:
    """A client of the store."""

    def __init__(self, store: Store, *, written: Written) -> None:
        self.store = store
        self.disturbance = Disturbance()
        self.writes: list[str] = []
        self.reads: dict[ChildKey, Object] = {}
        self._written = written
        self._counts = {True: 0, False: 0}
        self._own_write = 0

    def begin(self, disturbance: Disturbance) -> None:
        """A reconcile begins."""
        self.disturbance = disturbance
        self.writes, self.reads, self._counts = [], {}, {True: 0, False: 0}

    async def get(self, kind: Kind, *, namespace: str, name: str) -> Object | None:  # noqa: ARG002
        """One object, or None."""
        key = ChildKey(kind.kind, name)
        found = self._call(is_write=False, send=lambda: self._state(kind).get(key))
        if found is not None:
            self.reads[key] = found
        return copy.deepcopy(found)

    async def list(self, kind: Kind, *, namespace: str | None, selector: str = "") -> list[Object]:  # noqa: ARG002
        """All objects with one label."""
        label, _, value = selector.partition("=")
        state = self._call(is_write=False, send=lambda: self._state(kind))
        found = {
            key: item
            for key, item in state.items()
            if key.kind == kind.kind and item["metadata"].get("labels", {}).get(label) == value
        }
        self.reads |= found
        return copy.deepcopy(list(found.values()))

    async def list_page(self, kind: Kind, **_: Any) -> Object:
        """There are no Events."""
        assert kind is CORE_EVENT
        return {"items": []}

    async def apply(
        self, kind: Kind, *, body: Mapping[str, Any], field_manager: str, subresource: str = "", dry_run: bool = False
    ) -> Object:
        """Server-side apply."""
        key = ChildKey(kind.kind, body["metadata"]["name"])
        if dry_run:
            return copy.deepcopy(dict(body))
        return self._write(
            "APPLY",
            key,
            lambda: self.store.apply(key, body=body, manager=field_manager, subresource=subresource or ""),
        )

    async def patch(self, kind: Kind, *, namespace: str, name: str, body: Mapping[str, Any], **_: Any) -> Object:  # noqa: ARG002
        """A JSON merge patch."""
        key = ChildKey(kind.kind, name)
        return self._write("PATCH", key, lambda: self.store.patch(key, body=body))

    async def delete(self, kind: Kind, *, namespace: str, name: str, uid: str) -> None:  # noqa: ARG002
        """Delete an object, if it exists."""
        key = ChildKey(kind.kind, name)
        if self.store.find(key) is not None:
            self._write("DELETE", key, lambda: self.store.remove(key, uid=uid))

    def _state(self, kind: Kind) -> Mapping[ChildKey, Object]:
        """What a read of this kind sees: at least the own writes."""
        allowed = self.store.versions - self._own_write
        return self.store.state(lag=min(self.disturbance.lags.get(kind.kind, 0), allowed))

    def _write(self, verb: str, key: ChildKey, send: Callable[[], Any]) -> Any:
        def send_and_report() -> Any:
            before, version = self.store.find(key), self.store.versions
            answer = send()
            if self.store.versions != version:
                self.writes.append(f"{verb} {key.kind} {key.name}")
                self._own_write = self.store.versions
                self._written(verb, key, before, self.store.find(key))
            return answer

        return copy.deepcopy(self._call(is_write=True, send=send_and_report))

    def _call(self, *, is_write: bool, send: Callable[[], Any]) -> Any:
        disturbed = self.disturbance
        is_hit = disturbed.of_writes is is_write and self._counts[is_write] == disturbed.number
        self._counts[is_write] += 1
        fault = disturbed.fault if is_hit else None
        match fault:
            case None:
                return send()
            case Fault.CONFLICT:
                raise ConflictError("another client was first", request="model", status=409)
            case Fault.INTERNAL:
                raise FaultError("internal error", request="model", status=500)
            case Fault.UNAVAILABLE:
                raise UnavailableError("busy", request="model", status=503)
            case Fault.KILLED_BEFORE:
                raise KilledError
        send()
        if fault is Fault.LOST_ANSWER:
            raise UnavailableError("timeout", request="model")
        raise KilledError

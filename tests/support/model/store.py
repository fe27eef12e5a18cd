"""Objects of an API server in memory, with the semantics that the operator depends on.

Server-side apply with field managers, merge patches, uids, resourceVersions and generations. Earlier states are kept,
so that a read can be stale.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from epd_operator.cluster.errors import ConflictError, NotFoundError
from epd_operator.plan.observation import ChildKey

Object = dict[str, Any]
MAX_LAG = 8
"""States that are kept."""


@dataclass
class Store:
    """All objects of one namespace. An object is replaced by a write, never changed, so states can share it.

    Attributes:
        objects: the present state.
        states: the last states with the present one at the end.
        versions: number of writes so far, which is also the last resourceVersion.
    """

    namespace: str
    objects: dict[ChildKey, Object] = field(default_factory=dict)
    states: list[dict[ChildKey, Object]] = field(default_factory=lambda: [{}])
    versions: int = 0
    applied: dict[tuple[ChildKey, str, str], Object] = field(default_factory=dict)

    def find(self, key: ChildKey) -> Object | None:
        """An object as it is."""
        return self.objects.get(key)

    def of_kind(self, kind: str) -> dict[str, Object]:
        """The objects of a kind by name, as they are."""
        return {key.name: found for key, found in self.objects.items() if key.kind == kind}

    def state(self, *, lag: int) -> Mapping[ChildKey, Object]:
        """The state before the last writes."""
        return self.states[max(len(self.states) - 1 - lag, 0)]

    def put(self, key: ChildKey, content: Object) -> Object:
        """Store an object; nothing changes if it is equal to the stored one."""
        live = self.objects.get(key)
        if live is not None and live == content:
            return live
        self.versions += 1
        metadata = dict(content["metadata"])
        metadata["resourceVersion"] = str(self.versions)
        metadata.setdefault("uid", f"uid-{self.versions}")
        if live is None:
            metadata["generation"] = 1
        elif live.get("spec") != content.get("spec"):
            metadata["generation"] += 1
        self.objects[key] = {**content, "metadata": metadata}
        self._keep()
        return self.objects[key]

    def change(self, key: ChildKey, change: Callable[[Object], None]) -> None:
        """Change a copy of an object, and store it."""
        content = copy.deepcopy(self.objects[key])
        change(content)
        self.put(key, content)

    def remove(self, key: ChildKey, *, uid: str | None = None) -> None:
        """Remove an object; a uid is a precondition."""
        live = self.objects.get(key)
        if live is None:
            raise NotFoundError("not found", request=f"DELETE {key}")
        if uid is not None and live["metadata"]["uid"] != uid:
            raise ConflictError("another uid", request=f"DELETE {key}")
        del self.objects[key]
        for managed in [managed for managed in self.applied if managed[0] == key]:
            del self.applied[managed]
        self.versions += 1
        self._keep()

    def apply(self, key: ChildKey, *, body: Mapping[str, Any], manager: str, subresource: str = "") -> Object:
        """Server-side apply with force."""
        live = self.objects.get(key)
        if live is None and subresource:
            raise NotFoundError("not found", request=f"APPLY {key}")
        self._check_uid(key, body)
        managed = (key, manager, subresource)
        content = copy.deepcopy(live) if live is not None else {"metadata": {}}
        wanted = copy.deepcopy(dict(body))
        others = [
            fields for (other, name, _), fields in self.applied.items() if other == key and (other, name) != managed[:2]
        ]
        _remove(content, self.applied.get(managed, {}), kept=[wanted, *others])
        _merge(content, wanted)
        self.applied[managed] = wanted
        return self.put(key, content)

    def patch(self, key: ChildKey, *, body: Mapping[str, Any]) -> Object:
        """A JSON merge patch."""
        live = self.objects.get(key)
        if live is None:
            raise NotFoundError("not found", request=f"PATCH {key}")
        self._check_uid(key, body)
        return self.put(key, _patched(live, body))

    def _check_uid(self, key: ChildKey, body: Mapping[str, Any]) -> None:
        live, uid = self.objects.get(key), body.get("metadata", {}).get("uid")
        if live is not None and uid is not None and live["metadata"]["uid"] != uid:
            raise ConflictError("another uid", request=f"APPLY {key}")

    def _keep(self) -> None:
        self.states = [*self.states[-MAX_LAG:], dict(self.objects)]


def _merge(content: Object, wanted: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        if isinstance(value, Mapping) and isinstance(content.get(name), dict):
            _merge(content[name], value)
        elif value is not None:
            content[name] = value


def _remove(content: Object, fields: Mapping[str, Any], *, kept: Iterable[Mapping[str, Any]]) -> None:
    """Remove the fields that no manager has applied any more."""
    for name, value in fields.items():
        others = [other[name] for other in kept if other.get(name) is not None]
        if not others:
            content.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(content.get(name), dict):
            _remove(content[name], value, kept=[other for other in others if isinstance(other, Mapping)])


def _patched(live: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return patch
    content = dict(live) if isinstance(live, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            content.pop(name, None)
        else:
            content[name] = _patched(content.get(name), value)
    return content

"""Server-side apply removes only what its own manager owns. Ends quarrels over specs of the operator's own children.

A stranger's edit may leave an object that no apply can put right: it renumbers a port, and apply adds the planned one
beside it, under the same name. Once the stranger's fields are ours, the next apply removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_SPEC = "f:spec"


def with_whole_spec(entries: Iterable[Mapping[str, Any]], *, manager: str) -> list[dict[str, Any]] | None:
    """Managed fields in which the manager owns all of the spec that anybody owns; None if it does already.

    Args:
        entries: ``metadata.managedFields`` of an object that the manager has applied.
        manager: name of the field manager.
    """
    ours: dict[str, Any] | None = None
    others: list[dict[str, Any]] = []
    foreign: list[Mapping[str, Any]] = []
    for entry in entries:
        fields = entry.get("fieldsV1", {})
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (manager, "Apply", ""):
            ours = dict(entry)
        elif _SPEC in fields and not entry.get("subresource"):
            foreign.append(fields[_SPEC])
            left = {key: value for key, value in fields.items() if key != _SPEC}
            others += [{**entry, "fieldsV1": left}] if left else []
        else:
            others.append(dict(entry))
    if ours is None or not foreign:
        return None
    spec = ours.get("fieldsV1", {}).get(_SPEC, {})
    for fields in foreign:
        spec = _union(spec, fields)
    return [{**ours, "fieldsV1": {**ours["fieldsV1"], _SPEC: spec}}, *others]


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both sets of fields: nested maps whose keys are the fields."""
    return {key: _union(one.get(key, {}), other.get(key, {})) for key in [*one, *(k for k in other if k not in one)]}

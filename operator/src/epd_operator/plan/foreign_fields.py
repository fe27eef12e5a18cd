"""How fields that other clients have set in a child are removed, where an apply keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from epd_operator.plan.drift import Difference, Item, Path

_SPEC = "f:spec"


def with_whole_spec(entries: Iterable[Mapping[str, Any]], *, manager: str) -> list[dict[str, Any]] | None:
    """Managed fields in which the manager owns every field of the spec that has an owner; None if it does already.

    Args:
        entries: ``metadata.managedFields`` of an object that the manager has applied.
        manager: name of the field manager.
    """
    own: dict[str, Any] | None = None
    others: list[dict[str, Any]] = []
    foreign: list[Mapping[str, Any]] = []
    for entry in entries:
        fields = entry.get("fieldsV1", {})
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (manager, "Apply", ""):
            own = dict(entry)
        elif _SPEC in fields and not entry.get("subresource"):
            foreign.append(fields[_SPEC])
            rest = {key: value for key, value in fields.items() if key != _SPEC}
            others += [{**entry, "fieldsV1": rest}] if rest else []
        else:
            others.append(dict(entry))
    if own is None or not foreign:
        return None
    spec = own.get("fieldsV1", {}).get(_SPEC, {})
    for fields in foreign:
        spec = _union(spec, fields)
    return [{**own, "fieldsV1": {**own["fieldsV1"], _SPEC: spec}}, *others]


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The union of two sets of fields: nested maps whose keys are the fields."""
    return {key: _union(one.get(key, {}), other.get(key, {})) for key in [*one, *(k for k in other if k not in one)]}


def removal_of(found: Iterable[Difference], *, live: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON merge patch that removes the additions among the differences; empty if there are none.

    Args:
        found: differences between a planned and the live object.
        live: the live object.
    """
    return _patch(live, [difference.path for difference in found if difference.is_addition])


def _patch(node: Mapping[str, Any], paths: list[Path]) -> dict[str, Any]:
    """In a merge patch, null removes a field, and a list replaces the whole list."""
    patch: dict[str, Any] = {}
    for name, below in _by_first(paths).items():
        if () in below:
            patch[str(name)] = None
        elif isinstance(child := node[str(name)], list):
            patch[str(name)] = _without(child, below)
        else:
            patch[str(name)] = _patch(child, below)
    return patch


def _without(node: Any, paths: list[Path]) -> Any:
    """A copy of the value without these fields and items."""
    first = _by_first(paths)
    if isinstance(node, list):
        pairs = [(item, next((below for part, below in first.items() if _is_item(part, item)), [])) for item in node]
        return [_without(item, below) for item, below in pairs if () not in below]
    if isinstance(node, Mapping):
        return {
            name: _without(value, first.get(name, [])) for name, value in node.items() if () not in first.get(name, [])
        }
    return node


def _is_item(part: str | Item, item: Any) -> bool:
    return isinstance(part, Item) and isinstance(item, Mapping) and item.get(part.key) == part.value


def _by_first(paths: Iterable[Path]) -> dict[str | Item, list[Path]]:
    """The rests of the paths by their first parts."""
    found: dict[str | Item, list[Path]] = {}
    for first, *rest in paths:
        found.setdefault(first, []).append(tuple(rest))
    return found

"""Drift: whether a live child still matches the plan, and how edits of its spec by other clients are undone.

A child without drift is not written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from epd_operator.objects.quantities import are_equal

PLAN_HASH_ANNOTATION = "epd.dev/plan-hash"
"""Hash of the planned child. It shows that a field was removed from the plan; the live object cannot show that."""

_MERGE_KEYS = {
    "containers": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "ownerReferences": "uid",
    "ports": "name",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Lists that server-side apply merges item by item, and the key of their items. It replaces other lists as a whole."""

_UNSET_DIFFERS_FROM_EMPTY = {"allowPrivilegeEscalation", "emptyDir", "labelSelector", "namespaceSelector"}
"""Fields whose absence has another meaning than an empty value. The API server stores their empty values."""

_TEXT_FIELDS = {"annotations", "args", "command", "labels", "matchLabels", "nodeSelector", "value"}
"""Fields of text. Elsewhere two texts that are the same quantity are equal; here ``1024Mi`` and ``1Gi`` differ."""


@dataclass(frozen=True, kw_only=True)
class DriftRules:
    """How live children of one kind are compared with the plan.

    Attributes:
        exact_fields: names of fields that must be equal: an addition by another client would change their meaning, and
            the API server itself adds nothing there.
        immutable_field: a field that the plan may change, but that is immutable at the API server.
    """

    exact_fields: frozenset[str] = frozenset()
    immutable_field: str | None = None


NO_RULES = DriftRules()


def with_plan_hash(child: dict[str, Any]) -> dict[str, Any]:
    """The planned child with its hash as an annotation."""
    text = json.dumps(child, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    metadata = child["metadata"]
    annotations = {**metadata.get("annotations", {}), PLAN_HASH_ANNOTATION: digest}
    return {**child, "metadata": {**metadata, "annotations": annotations}}


def matches(planned: Any, live: Any, *, rules: DriftRules = NO_RULES, field: str = "", is_text: bool = False) -> bool:
    """Whether the live object has every planned value. Fields that the API server added do not count.

    Args:
        planned: the planned value.
        live: the value at the API server; None if it has none.
        rules: rules of the child's kind.
        field: name of the field that has the value.
        is_text: the value is text, or consists of text: quantities have no meaning in it.
    """
    is_text = is_text or field in _TEXT_FIELDS
    exact = field in rules.exact_fields and planned is not None and live is not None
    contained = _contains(live, planned, rules=rules, field=field, is_text=is_text)
    return contained and (not exact or _contains(planned, live, rules=rules, field=field, is_text=is_text))


def _contains(live: Any, planned: Any, *, rules: DriftRules, field: str, is_text: bool) -> bool:
    """Whether `live` has every value of `planned`."""
    if planned is None:
        # Null means that the API server sets the value.
        return True
    if live is None:
        # The API server does not store most empty values.
        return _is_empty(planned) and field not in _UNSET_DIFFERS_FROM_EMPTY
    if isinstance(planned, Mapping):
        return isinstance(live, Mapping) and all(
            matches(value, live.get(key), rules=rules, field=key, is_text=is_text) for key, value in planned.items()
        )
    if isinstance(planned, list):
        key = _MERGE_KEYS.get(field)
        return isinstance(live, list) and _lists_match(planned, live, rules=rules, key=key, is_text=is_text)
    if planned == live or is_text:
        return bool(planned == live)
    return isinstance(planned, str | int | float) and isinstance(live, str | int) and are_equal(str(planned), str(live))


def must_recreate(planned: Mapping[str, Any], live: Mapping[str, Any], *, rules: DriftRules) -> bool:
    """Whether the live child must be recreated, because the planned change is in an immutable field."""
    field = rules.immutable_field
    return field is not None and not matches(planned[field], live.get(field), rules=rules, field=field)


def _is_empty(planned: Any) -> bool:
    """Whether the value is empty, or has only empty values."""
    if isinstance(planned, Mapping):
        return all(_is_empty(value) for value in planned.values())
    return not planned


def _lists_match(planned: list[Any], live: list[Any], *, rules: DriftRules, key: str | None, is_text: bool) -> bool:
    if key is not None and all(isinstance(item, Mapping) and key in item for item in planned):
        found = {item.get(key): item for item in live if isinstance(item, Mapping)}
        return all(
            item[key] in found and matches(item, found[item[key]], rules=rules, is_text=is_text) for item in planned
        )
    return len(planned) == len(live) and all(
        matches(item, other, rules=rules, is_text=is_text) for item, other in zip(planned, live, strict=True)
    )


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

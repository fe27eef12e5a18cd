"""Drift: whether a live child still matches the plan, and how foreign edits of its spec are undone.

No drift means no write.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from epd_operator.objects.quantities import same

PLAN_HASH_ANNOTATION = "epd.dev/plan-hash"
"""Hash of the child as planned: tells that a field was dropped from the plan, which the live object cannot show."""

_MERGE_KEYS = {
    "containers": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "ownerReferences": "uid",
    "ports": "name",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Lists that server-side apply merges item by item, with the field that tells items apart; others are ours whole."""

_UNSET_IS_ANOTHER_VALUE = {"allowPrivilegeEscalation", "emptyDir", "labelSelector", "namespaceSelector"}
"""Fields that the API server stores though empty, and whose absence means something else."""


@dataclass(frozen=True, kw_only=True)
class DriftRules:
    """How live children of one kind are compared with the plan.

    Attributes:
        exact_fields: names of fields that must be equal: an addition by another client changes the meaning of what was
            planned, and the API server adds nothing there itself.
        immutable_field: a field that the API server never lets anybody change, and that the plan may change.
    """

    exact_fields: frozenset[str] = frozenset()
    immutable_field: str | None = None


NO_RULES = DriftRules()


def with_plan_hash(child: dict[str, Any]) -> dict[str, Any]:
    """The child with the hash of its own plan among its annotations."""
    text = json.dumps(child, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    metadata = child["metadata"]
    annotations = {**metadata.get("annotations", {}), PLAN_HASH_ANNOTATION: digest}
    return {**child, "metadata": {**metadata, "annotations": annotations}}


def matches(planned: Any, live: Any, *, rules: DriftRules = NO_RULES, field: str = "") -> bool:
    """Whether the live object holds everything that was planned; what the API server added does not matter.

    Args:
        planned: the value as planned.
        live: the value as the API server has it, None where it has none.
        rules: rules of the child's kind.
        field: name of the field that holds the value.
    """
    exact = field in rules.exact_fields and planned is not None and live is not None
    holds = _holds(planned, live, rules=rules, field=field)
    return holds and (not exact or _holds(live, planned, rules=rules, field=field))


def _holds(planned: Any, live: Any, *, rules: DriftRules, field: str) -> bool:
    if planned is None:
        # Null leaves the value to the API server.
        return True
    if live is None:
        # The API server does not store most empty values.
        return _is_empty(planned) and field not in _UNSET_IS_ANOTHER_VALUE
    if isinstance(planned, Mapping):
        return isinstance(live, Mapping) and all(
            matches(value, live.get(key), rules=rules, field=key) for key, value in planned.items()
        )
    if isinstance(planned, list):
        return isinstance(live, list) and _lists_match(planned, live, rules=rules, key=_MERGE_KEYS.get(field))
    if planned == live:
        return True
    return isinstance(planned, str | int) and isinstance(live, str | int) and same(str(planned), str(live))


def must_recreate(planned: Mapping[str, Any], live: Mapping[str, Any], *, rules: DriftRules) -> bool:
    """Whether the live child can reach the planned state only by being deleted and created again."""
    field = rules.immutable_field
    return field is not None and not matches(planned[field], live.get(field), rules=rules, field=field)


def _is_empty(planned: Any) -> bool:
    """Whether the value is the empty one of its type, or holds only such."""
    if isinstance(planned, Mapping):
        return all(_is_empty(value) for value in planned.values())
    return not planned


def _lists_match(planned: list[Any], live: list[Any], *, rules: DriftRules, key: str | None) -> bool:
    if key is not None and all(isinstance(item, Mapping) and key in item for item in planned):
        found = {item.get(key): item for item in live if isinstance(item, Mapping)}
        return all(item[key] in found and matches(item, found[item[key]], rules=rules) for item in planned)
    return len(planned) == len(live) and all(matches(p, v, rules=rules) for p, v in zip(planned, live, strict=True))


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

"""Drift: where a live child differs from the plan.

A child without drift is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from epd_operator.objects.digests import digest
from epd_operator.objects.quantities import are_equal

PLAN_HASH_ANNOTATION = "epd.dev/plan-hash"
"""Hash of the planned child. It shows that a field was removed from the plan; the live object cannot show that.

The hash of the child's pod template follows after a dash. It tells a change that replaces pods from any other.
"""
_HASH_LENGTH = 16
TEMPLATE = ("spec", "template")
"""Path of the pod template of a child."""

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

_UNSET_DIFFERS_FROM_EMPTY = {
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "emptyDir",
    "hostUsers",
    "labelSelector",
    "namespaceSelector",
    "runAsGroup",
    "runAsUser",
}
"""Fields whose absence has another meaning than an empty value. The API server stores their empty values."""

_TEXT_FIELDS = {"annotations", "args", "command", "labels", "matchLabels", "nodeSelector", "value"}
"""Fields of text. Elsewhere two texts that are the same quantity are equal; here ``1024Mi`` and ``1Gi`` differ."""


@dataclass(frozen=True, kw_only=True)
class DriftRules:
    """How live children of one kind are compared with the plan.

    Additions that are not named here do not count: the API server adds defaults, and other clients may add labels,
    annotations, variables and volumes.

    Attributes:
        exact_fields: names of fields that must be equal: an addition by another client would change their meaning, and
            the API server itself adds nothing there.
        closed_lists: names of lists to which other clients must not add items; the API server adds fields to items.
        closed_fields: names of fields that must not be set unless they are planned.
        immutable_field: a field that the plan may change, but that is immutable at the API server.
    """

    exact_fields: frozenset[str] = frozenset()
    closed_lists: frozenset[str] = frozenset()
    closed_fields: frozenset[str] = frozenset()
    immutable_field: str | None = None


NO_RULES = DriftRules()


@dataclass(frozen=True)
class Item:
    """An item of a list in a path: the one whose field ``key`` has the value."""

    key: str
    value: Any

    def __str__(self) -> str:
        """As in ``containers[vllm]``."""
        return f"[{self.value}]"


Path = tuple[str | Item, ...]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A field in which a live child differs from the plan.

    Attributes:
        path: the path of the field.
        live: its live value; None if it has none.
        is_addition: the field is not planned. An apply does not remove it, unless the operator applied it before.
    """

    path: Path
    live: Any
    is_addition: bool = False

    def __str__(self) -> str:
        """The path, as in ``spec.template.spec.containers[vllm].image``."""
        return "".join(str(part) if isinstance(part, Item) else f".{part}" for part in self.path).lstrip(".")


def with_plan_hash(child: dict[str, Any]) -> dict[str, Any]:
    """The planned child with its hash as an annotation."""
    metadata = child["metadata"]
    template = child.get("spec", {}).get("template")
    value = _hash(child) if template is None else f"{_hash(child)}-{_hash(template)}"
    annotations = {**metadata.get("annotations", {}), PLAN_HASH_ANNOTATION: value}
    return {**child, "metadata": {**metadata, "annotations": annotations}}


def plan_hash(child: Mapping[str, Any]) -> str:
    """The hash of a planned child that `with_plan_hash` returned."""
    return str(child["metadata"]["annotations"][PLAN_HASH_ANNOTATION])


def has_new_template(planned: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether the pod template of a planned child is another than that of the plan that was applied last."""
    annotations = live.get("metadata", {}).get("annotations") or {}
    applied = str(annotations.get(PLAN_HASH_ANNOTATION))
    return plan_hash(planned).partition("-")[2] != applied.partition("-")[2]


def values_hash(found: Iterable[Difference]) -> str:
    """A hash of the differing live values."""
    return _hash([[str(difference), difference.live] for difference in found])


def _hash(value: Any) -> str:
    return digest(value, length=_HASH_LENGTH)


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where two values are compared.

    Attributes:
        rules: rules of the child's kind.
        path: path of the values.
        field: name of the field that has the values; empty for items of lists.
        is_text: the values are text, or consist of text: quantities have no meaning in them.
        is_exact: additions count.
    """

    rules: DriftRules
    path: Path = ()
    field: str = ""
    is_text: bool = False
    is_exact: bool = False

    def below(self, name: str) -> _Place:
        return replace(
            self,
            path=(*self.path, name),
            field=name,
            is_text=self.is_text or name in _TEXT_FIELDS,
            is_exact=self.is_exact or name in self.rules.exact_fields,
        )

    def item(self, key: str, value: Any) -> _Place:
        return replace(self, path=(*self.path, Item(key, value)), field="")

    def differs(self, live: Any, *, is_addition: bool = False) -> Difference:
        return Difference(path=self.path, live=live, is_addition=is_addition)


def differences(planned: Any, live: Any, *, rules: DriftRules = NO_RULES) -> Iterator[Difference]:
    """The fields in which the live object differs from the plan.

    Args:
        planned: the planned object.
        live: the object at the API server.
        rules: rules of the child's kind.
    """
    return _compare(planned, live, _Place(rules=rules))


def matches(planned: Any, live: Any, *, rules: DriftRules = NO_RULES) -> bool:
    """Whether the live object does not differ from the plan."""
    return next(differences(planned, live, rules=rules), None) is None


def must_recreate(planned: Mapping[str, Any], live: Mapping[str, Any], *, rules: DriftRules) -> bool:
    """Whether the live child must be recreated, because the planned change is in an immutable field."""
    name = rules.immutable_field
    return name is not None and not matches({name: planned[name]}, {name: live.get(name)}, rules=rules)


def _compare(planned: Any, live: Any, place: _Place) -> Iterator[Difference]:
    if planned is None:
        # Null means that the API server sets the value.
        return
    if live is None:
        # The API server does not store most empty values.
        if not _is_empty(planned) or place.field in _UNSET_DIFFERS_FROM_EMPTY:
            yield place.differs(None)
    elif isinstance(planned, Mapping) and isinstance(live, Mapping):
        yield from _compare_maps(planned, live, place)
    elif isinstance(planned, list) and isinstance(live, list):
        yield from _compare_lists(planned, live, place)
    elif not _is_same_scalar(planned, live, is_text=place.is_text):
        yield place.differs(live)


def _compare_maps(planned: Mapping[str, Any], live: Mapping[str, Any], place: _Place) -> Iterator[Difference]:
    for name, value in planned.items():
        # Most values are equal, and then nothing below them differs: comparing them at once keeps reconciles short.
        if value != (found := live.get(name)):
            yield from _compare(value, found, place.below(name))
    for name, value in live.items():
        is_closed = place.is_exact or (name in place.rules.closed_fields and not place.is_text)
        if name not in planned and is_closed and (not _is_empty(value) or name in _UNSET_DIFFERS_FROM_EMPTY):
            yield place.below(name).differs(value, is_addition=True)


def _compare_lists(planned: list[Any], live: list[Any], place: _Place) -> Iterator[Difference]:
    key = _MERGE_KEYS.get(place.field)
    if key is None or not all(isinstance(item, Mapping) and key in item for item in planned):
        pairs = zip(planned, live, strict=False)
        is_same = len(planned) == len(live) and all(
            next(_compare(item, other, replace(place, field="")), None) is None for item, other in pairs
        )
        if not is_same:
            yield place.differs(live)
        return
    found = {item.get(key): item for item in live if isinstance(item, Mapping)}
    for item in planned:
        if item != (other := found.pop(item[key], None)):
            yield from _compare(item, other, place.item(key, item[key]))
    if place.is_exact or place.field in place.rules.closed_lists:
        for value, item in found.items():
            yield place.item(key, value).differs(item, is_addition=True)


def _is_same_scalar(planned: Any, live: Any, *, is_text: bool) -> bool:
    if planned == live or is_text:
        return bool(planned == live)
    return isinstance(planned, str | int | float) and isinstance(live, str | int) and are_equal(str(planned), str(live))


def _is_empty(value: Any) -> bool:
    """Whether the value is empty, or has only empty values."""
    if isinstance(value, Mapping):
        return all(_is_empty(item) for item in value.values())
    return not value

"""What a pydantic annotation cannot say about a Kubernetes schema.

The markers are placed in ``Annotated[...]`` (fields) or, for rules, in a model's ``rules`` (whole objects). Each adds
its Kubernetes extension to the JSON schema; those that the API server enforces by itself (uniqueness in lists, the
known part of a passed-on object) are enforced by pydantic too, so that model and schema accept the same objects.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Strict
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

VALIDATIONS = "x-kubernetes-validations"
LIST_TYPE = "x-kubernetes-list-type"
LIST_MAP_KEYS = "x-kubernetes-list-map-keys"
PRESERVE_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A CEL validation rule (``x-kubernetes-validations``). The API server evaluates it, pydantic does not.

    Attributes:
        expression: CEL over ``self``; true means valid.
        message: what is wrong and the way out, for the person who applied the object.
        field_path: the child that the API server names in its error, such as ``.encoder``.
        reason: how the API server words the error; unset means an invalid value.
    """

    expression: str
    message: str
    field_path: str | None = None
    reason: Literal["FieldValueRequired", "FieldValueForbidden", "FieldValueDuplicate"] | None = None

    def as_schema(self) -> dict[str, str]:
        """The rule as one item of ``x-kubernetes-validations``."""
        optional = {"reason": self.reason, "fieldPath": self.field_path}
        written = {key: value for key, value in optional.items() if value is not None}
        return {"rule": self.expression, "message": self.message, **written}

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Append the rule to those of the value that the annotation describes."""
        described = handler(schema)
        return {**described, VALIDATIONS: [*described.get(VALIDATIONS, []), self.as_schema()]}


@dataclass(frozen=True)
class ListMap:
    """The list is a map keyed by these fields (wire names) of its items; server-side apply merges item by item."""

    keys: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Refuse two items of the same key, as the API server does."""
        return core_schema.no_info_after_validator_function(self._unique, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Declare the list's type and keys."""
        return {**handler(schema), LIST_TYPE: "map", LIST_MAP_KEYS: list(self.keys)}

    def _unique(self, items: list[Any]) -> list[Any]:
        wire = [item.model_dump(by_alias=True) if isinstance(item, BaseModel) else item for item in items]
        return _without_duplicates(items, [tuple(item.get(key) for key in self.keys) for item in wire])


@dataclass(frozen=True)
class ListSet:
    """The list is a set of scalars."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Refuse the same item twice, as the API server does."""
        return core_schema.no_info_after_validator_function(_unique_items, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Declare the list's type."""
        return {**handler(schema), LIST_TYPE: "set"}


def _unique_items(items: list[Any]) -> list[Any]:
    return _without_duplicates(items, items)


def _without_duplicates(items: list[Any], keys: list[Hashable]) -> list[Any]:
    duplicates = [key for index, key in enumerate(keys) if key in keys[:index]]
    if duplicates:
        raise ValueError(f"duplicate item: {duplicates[0]}")
    return items


@dataclass(frozen=True)
class PreserveUnknown:
    """A part of another Kubernetes API: a plain mapping, passed on as it is and validated by the API server there.

    Attributes:
        shape: the few fields that are checked here already; all others are kept unseen.
    """

    shape: type[BaseModel] | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check the known fields and keep the mapping as it was written."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the known fields and preserve the others."""
        if self.shape is None:
            return {"type": "object", PRESERVE_UNKNOWN: True}
        known = handler.resolve_ref_schema(handler(self.shape.__pydantic_core_schema__))
        return {**known, PRESERVE_UNKNOWN: True}

    def _check(self, value: dict[str, Any]) -> dict[str, Any]:
        if self.shape is not None:
            self.shape.model_validate(value)
        return value


@dataclass(frozen=True)
class IntOrString:
    """The value may be written as an integer or as a string."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Replace the union by the extension that stands for it."""
        return {INT_OR_STRING: True}


@dataclass(frozen=True, kw_only=True)
class PrinterColumn:
    """One column of ``kubectl get``."""

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


Int = Annotated[int, Strict()]
"""An integer; unlike plain int it takes no numeral in quotes and no boolean, as the API server takes none."""

Bool = Annotated[bool, Strict()]
"""A boolean; unlike plain bool it takes no word and no number."""

Int64 = Annotated[int, Strict(), Field(le=2**63 - 1)]
"""An integer without a narrower limit than the wire's."""

QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
"""Non-negative Kubernetes quantities in plain notation."""

Quantity = Annotated[
    str,
    Field(max_length=32, pattern=QUANTITY_PATTERN),
]
"""An amount such as ``16Gi``; always written as a string."""

KubernetesObject = Annotated[dict[str, Any], PreserveUnknown()]

"""Markers for properties of a Kubernetes schema that pydantic annotations cannot express.

Markers of fields are placed in ``Annotated[...]``. Rules for whole objects are placed in the ``rules`` of a model. Each
marker adds its Kubernetes extension to the JSON schema. For extensions that the API server enforces, such as unique
items, pydantic does the same check, so that model and schema accept the same objects.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Strict
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
        message: the error and the fix, for the user who applied the object.
        message_expression: CEL for a message with parts of the value; the API server falls back to ``message``.
        field_path: field for the error of the API server, such as ``.encoder``.
        reason: kind of the error; unset means an invalid value.
    """

    expression: str
    message: str
    message_expression: str | None = None
    field_path: str | None = None
    reason: Literal["FieldValueRequired", "FieldValueForbidden", "FieldValueDuplicate"] | None = None

    def as_schema(self) -> dict[str, str]:
        """The rule as one item of ``x-kubernetes-validations``."""
        optional = {
            "messageExpression": self.message_expression,
            "reason": self.reason,
            "fieldPath": self.field_path,
        }
        written = {key: value for key, value in optional.items() if value is not None}
        return {"rule": self.expression, "message": self.message, **written}

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the rule to the schema of the annotated value."""
        described = handler(schema)
        return {**described, VALIDATIONS: [*described.get(VALIDATIONS, []), self.as_schema()]}


@dataclass(frozen=True)
class ListMap:
    """The items of the list are unique by these fields, and server-side apply merges them by these fields.

    The fields are given by their names in JSON.
    """

    keys: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Refuse two items with the same key, as the API server does."""
        return core_schema.no_info_after_validator_function(self._unique, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Declare the list's type and keys."""
        return {**handler(schema), LIST_TYPE: "map", LIST_MAP_KEYS: list(self.keys)}

    def _unique(self, items: list[Any]) -> list[Any]:
        objects = [item.model_dump(by_alias=True) if isinstance(item, BaseModel) else item for item in items]
        return _require_unique(items, [tuple(item.get(key) for key in self.keys) for item in objects])


@dataclass(frozen=True)
class ListSet:
    """The list is a set of scalars: its items are unique."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Refuse duplicate items, as the API server does."""
        return core_schema.no_info_after_validator_function(_unique_items, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Declare the list's type."""
        return {**handler(schema), LIST_TYPE: "set"}


def _unique_items(items: list[Any]) -> list[Any]:
    return _require_unique(items, items)


def _require_unique(items: list[Any], keys: list[Hashable]) -> list[Any]:
    duplicates = [key for index, key in enumerate(keys) if key in keys[:index]]
    if duplicates:
        raise ValueError(f"duplicate item: {duplicates[0]}")
    return items


@dataclass(frozen=True)
class PreserveUnknown:
    """A part of another Kubernetes API: a plain mapping that is passed through unchanged.

    The API server validates it in the object to which it is passed.

    Attributes:
        shape: model of the fields that are also validated here; all other fields are not validated.
    """

    shape: type[BaseModel] | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate the known fields, and keep the mapping unchanged."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the known fields, and preserve all others."""
        if self.shape is None:
            return {"type": "object", PRESERVE_UNKNOWN: True}
        known = handler.resolve_ref_schema(handler(self.shape.__pydantic_core_schema__))
        return {**known, PRESERVE_UNKNOWN: True}

    def _check(self, value: dict[str, Any]) -> dict[str, Any]:
        if self.shape is not None:
            self.shape.model_validate(value)
        return value


@dataclass(frozen=True, kw_only=True)
class PrinterColumn:
    """One column of ``kubectl get``."""

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


Int = Annotated[int, Strict()]
"""An integer. Unlike int, it accepts no strings and no booleans, the same as the API server."""

_PERCENT = r"^(0|[1-9][0-9]?|100)%$"
_MAX_PODS = 10000


@dataclass(frozen=True)
class IntOrString:
    """The value is an integer or a string. Limits of the schema apply to the integer, the pattern to the string."""

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Declare both types, as the API server requires it instead of ``anyOf``."""
        return {INT_OR_STRING: True, "minimum": 0, "maximum": _MAX_PODS, "maxLength": 4, "pattern": _PERCENT}


IntOrPercent = Annotated[
    Annotated[int, Strict(), Field(ge=0, le=_MAX_PODS)] | Annotated[str, Field(max_length=4, pattern=_PERCENT)],
    IntOrString(),
]
"""A number of pods, or a percentage such as ``25%``."""

Bool = Annotated[bool, Strict()]
"""A boolean. Unlike bool, it accepts no strings and no numbers."""

Int64 = Annotated[int, Strict(), Field(le=2**63 - 1)]
"""An integer with the range of a 64-bit integer in the API."""

QUANTITY_PATTERN = "^[0-9]+([.][0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
"""Non-negative Kubernetes quantities without an exponent."""


def is_quantity(text: str = "self") -> str:
    """CEL: whether a text is a quantity. Other rules must accept a text that is none, or users get two errors."""
    return f"{text}.matches('{QUANTITY_PATTERN}')"


def _require_quantity(value: str) -> str:
    if re.fullmatch(QUANTITY_PATTERN.removesuffix("$"), value) is None:
        raise ValueError("not a quantity")
    return value


Quantity = Annotated[
    str,
    Field(max_length=32),
    # pydantic and the rule check the same. A pattern in the schema would have a message that names no fix.
    AfterValidator(_require_quantity),
    Rule(
        expression=is_quantity(),
        message="not a quantity: write a number with a unit, for example 8Gi, 512Mi, or 500m for half a CPU",
    ),
    Rule(
        expression="!isQuantity(self) || quantity(self).compareTo(quantity('1Pi')) <= 0",
        message="must be at most 1Pi: correct the number or the unit",
    ),
]
"""A quantity such as ``16Gi``, always a string."""

KubernetesObject = Annotated[dict[str, Any], PreserveUnknown()]

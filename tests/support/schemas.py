"""The compiled schema of EPDDeployment, evaluated as the API server does, without its CEL rules.

The server prunes null before it validates and checks unique lists; jsonschema does neither, so both are added here.
Strings are matched as Go and Rust match them: ``$`` is the end of the text, not of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
from crdgen import compile_schema
from crdgen.structural import children
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator

from epd_operator.api.markers import INT_OR_STRING, QUANTITY_PATTERN, VALIDATIONS, is_quantity
from epd_operator.api.v1alpha1 import EPDDeployment

Schema = dict[str, Any]


@cache
def compiled() -> Schema:
    """The structural schema of EPDDeployment."""
    return compile_schema(EPDDeployment)


def rule_messages(schema: Schema) -> Iterator[str]:
    """Messages of all CEL rules of a schema."""
    for rule in schema.get(VALIDATIONS, []):
        yield rule["message"]
    for _, child in children(schema):
        yield from rule_messages(child)


def prune_null(value: Any) -> Any:
    """The value without fields that are null, which the server treats as absent."""
    if isinstance(value, dict):
        return {key: prune_null(item) for key, item in value.items() if item is not None}
    return [prune_null(item) for item in value] if isinstance(value, list) else value


def pattern_of(schema: Schema) -> str | None:
    """The pattern that model and API server enforce: a keyword, or for quantities a rule with a better message."""
    rules = [rule["rule"] for rule in schema.get(VALIDATIONS, [])]
    return QUANTITY_PATTERN if is_quantity() in rules else schema.get("pattern")


def schema_accepts(schema: Schema, value: Any) -> bool:
    """Whether the schema alone accepts the value."""
    return bool(_ServerValidator(schema).is_valid(value))


def _pattern(_: Validator, pattern: str, instance: Any, __: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not re.search(pattern.removesuffix("$") + r"\Z", instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _rules(_: Validator, __: Any, instance: Any, schema: Schema) -> Iterator[ValidationError]:
    if "pattern" not in schema:
        yield from _pattern(_, pattern_of(schema) or "", instance, schema)


def _list_type(_: Validator, list_type: str, instance: Any, schema: Schema) -> Iterator[ValidationError]:
    if list_type == "atomic" or not isinstance(instance, list):
        return
    keys = schema.get("x-kubernetes-list-map-keys", [])
    seen = [[item.get(key) for key in keys] if isinstance(item, dict) else item for item in instance]
    if any(one in seen[:index] for index, one in enumerate(seen)):
        yield ValidationError("duplicate item")


def _int_or_string(_: Validator, wanted: bool, instance: Any, __: Schema) -> Iterator[ValidationError]:
    if wanted and (isinstance(instance, bool) or not isinstance(instance, int | str)):
        yield ValidationError(f"{instance!r} is neither an integer nor a string")


_TYPES = jsonschema.Draft7Validator.TYPE_CHECKER.redefine(
    "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
)
_ServerValidator = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft7Validator,
    {"pattern": _pattern, VALIDATIONS: _rules, "x-kubernetes-list-type": _list_type, INT_OR_STRING: _int_or_string},
    type_checker=_TYPES,
)

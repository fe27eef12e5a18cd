"""Converts pydantic's JSON schema to a structural schema of apiextensions.k8s.io/v1, by an allow-list.

The result contains no references. Everything that the API server would refuse, treat differently or ignore silently is
an error here, with the path of the field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crdgen.errors import CompileError
from crdgen.generate import TYPE_DESCRIPTION, TYPE_NAME, UNSUPPORTED
from crdgen.patterns import pattern_problem
from epd_operator.api.markers import INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, PRESERVE_UNKNOWN, VALIDATIONS

Schema = dict[str, Any]

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

COMMON = frozenset({"type", "description", "default", VALIDATIONS, TYPE_NAME, TYPE_DESCRIPTION})
ALLOWED = {
    "string": COMMON | {"minLength", "maxLength", "pattern", "enum"},
    "integer": COMMON | {"minimum", "maximum"},
    "boolean": COMMON,
    "array": COMMON | {"items", "minItems", "maxItems", LIST_TYPE, LIST_MAP_KEYS},
    "object": COMMON
    | {"properties", "required", "additionalProperties", "minProperties", "maxProperties", PRESERVE_UNKNOWN},
}
INT_OR_STRING_KEYWORDS = COMMON - {"type"} | {INT_OR_STRING, "minimum", "maximum", "maxLength", "pattern"}
HINTS = {
    "anyOf": "use optional sibling fields with a Rule",
    "oneOf": "use optional sibling fields with a Rule",
    "exclusiveMinimum": "use ge=",
    "exclusiveMaximum": "use le=",
    "prefixItems": "use a list, or an object with named fields",
    "uniqueItems": "use list[...] with ListSet()",
    "format": "the API server and pydantic validate formats differently: use a pattern",
    "nullable": "null is not a value: give the field the default None",
}


@dataclass(frozen=True)
class _Walk:
    definitions: Mapping[str, Schema]

    def convert(self, node: Schema, path: str, ancestors: tuple[str, ...] = ()) -> Schema:
        """The structural schema of a node and of all nodes below it."""
        node, ancestors = self._follow(node, path, ancestors)
        for feature in node.pop(UNSUPPORTED, []):
            raise CompileError(path, f"{feature}: not supported")
        node.pop("title", None)
        if "const" in node:
            node["enum"] = [node.pop("const")]
        kind = node.get("type")
        if node.get(INT_OR_STRING):
            self._check_keywords(node, path, INT_OR_STRING_KEYWORDS)
            _check_string(node, path)
            return _described(node)
        if kind not in ALLOWED:
            self._check_keywords(node, path, frozenset())
            raise CompileError(path, f"type {kind!r} is not supported: use strings, integers, booleans, lists, objects")
        self._check_keywords(node, path, ALLOWED[kind])
        node = _described(node)
        match kind:
            case "string":
                _check_string(node, path)
            case "integer":
                _set_integer_format(node, path)
            case "array":
                self._convert_array(node, path, ancestors)
            case "object":
                self._convert_object(node, path, ancestors)
        return node

    def _follow(self, node: Schema, path: str, ancestors: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """A copy of the node with its reference resolved. Its own keywords take precedence, but rules are added."""
        node = dict(node)
        while "$ref" in node:
            name = str(node.pop("$ref")).removeprefix("#/$defs/")
            if name in ancestors:
                raise CompileError(path, f"recursive model {name}: a structural schema cannot be recursive")
            ancestors = (*ancestors, name)
            target = self.definitions[name]
            rules = [*target.get(VALIDATIONS, []), *node.get(VALIDATIONS, [])]
            node = {**target, **node, **({VALIDATIONS: rules} if rules else {})}
        return node, ancestors

    def _check_keywords(self, node: Schema, path: str, allowed: frozenset[str]) -> None:
        for keyword in node:
            if keyword in HINTS or (allowed and keyword not in allowed):
                hint = HINTS.get(keyword, f"not supported for type {node.get('type')}")
                raise CompileError(path, f"keyword {keyword!r}: {hint}")

    def _convert_array(self, node: Schema, path: str, ancestors: tuple[str, ...]) -> None:
        _require(node, path, "maxItems", "give the list a max_length")
        if "items" not in node:
            raise CompileError(path, "keyword 'items' is missing: give the list a type for its items")
        node["items"] = self.convert(node["items"], f"{path}[]", ancestors)
        node.setdefault(LIST_TYPE, "atomic")
        _check_list_type(node, path)

    def _convert_object(self, node: Schema, path: str, ancestors: tuple[str, ...]) -> None:
        additional = node.get("additionalProperties")
        if isinstance(additional, bool):
            raise CompileError(
                path,
                f"keyword 'additionalProperties' is {str(additional).lower()}: use a model that ignores unknown "
                "fields, a map with a type for its values, or a mapping with the marker PreserveUnknown",
            )
        if additional is not None:
            if "properties" in node:
                raise CompileError(
                    path, "keywords 'additionalProperties' and 'properties' together: use a map or an object"
                )
            _require(node, path, "maxProperties", "give the map a max_length")
            node["additionalProperties"] = self.convert(additional, f"{path}{{}}", ancestors)
        elif node.get("properties"):
            required = set(node.get("required", []))
            node["properties"] = {
                name: self._convert_property(child, f"{path}.{name}".lstrip("."), name in required, ancestors)
                for name, child in node["properties"].items()
            }
        elif not node.get(PRESERVE_UNKNOWN):
            raise CompileError(path, "an object without fields: the API server would prune all its content")

    def _convert_property(self, child: Schema, path: str, required: bool, ancestors: tuple[str, ...]) -> Schema:
        child = dict(child)
        if child.pop("nullable", False) and required:
            raise CompileError(path, f"keyword 'nullable': {HINTS['nullable']}")
        return self.convert(child, path, ancestors)


def _described(node: Schema) -> Schema:
    """The node with its description on one line."""
    if "description" in node:
        node["description"] = " ".join(node["description"].split())
    return node


def _require(node: Schema, path: str, keyword: str, hint: str) -> None:
    if keyword not in node:
        raise CompileError(path, f"keyword {keyword!r} is missing: {hint}; otherwise the cost of rules is too high")


def _check_string(node: Schema, path: str) -> None:
    if "enum" in node:
        return
    _require(node, path, "maxLength", "give the string a max_length")
    problem = pattern_problem(node["pattern"]) if "pattern" in node else None
    if problem:
        raise CompileError(path, f"keyword 'pattern': {problem}")


def _set_integer_format(node: Schema, path: str) -> None:
    _require(node, path, "maximum", "give the integer an upper limit (le=), or use Int64")
    if node["maximum"] == INT64_MAX:
        del node["maximum"]  # implied by the format
        node["format"] = "int64"
    else:
        node["format"] = "int32" if node["maximum"] <= INT32_MAX else "int64"


def _check_list_type(node: Schema, path: str) -> None:
    items = node["items"]
    if node[LIST_TYPE] == "set" and items.get("type") not in {"string", "integer", "boolean"}:
        raise CompileError(path, f"keyword {LIST_TYPE!r}: only lists of scalars can be sets: use ListMap")
    for key in node.get(LIST_MAP_KEYS, []):
        declared = items.get("properties", {}).get(key)
        if declared is None:
            raise CompileError(path, f"keyword {LIST_MAP_KEYS!r}: the items have no field {key!r}")
        if key not in items.get("required", []) and "default" not in declared:
            raise CompileError(path, f"keyword {LIST_MAP_KEYS!r}: {key!r} must be required or have a default")


def structural_schema(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """The structural schema of a model's JSON schema. It still contains TYPE_NAME and TYPE_DESCRIPTION.

    Raises:
        CompileError: the model cannot be expressed as a structural schema.
    """
    return _Walk(definitions).convert(schema, "")


def children(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The schemas directly below a schema, each with the end of its path."""
    for name, child in schema.get("properties", {}).items():
        yield f".{name}", child
    if "items" in schema:
        yield "[]", schema["items"]
    if "additionalProperties" in schema:
        yield "{}", schema["additionalProperties"]

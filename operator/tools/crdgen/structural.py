"""From pydantic's JSON schema to a structural schema of apiextensions.k8s.io/v1, by allow-list.

References are followed, so the result has none. Whatever the API server would refuse, mishandle or silently ignore is
refused here, with the path of the field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crdgen.errors import CompileError
from crdgen.generate import REFUSALS, TYPE_ABOUT, TYPE_NAME
from crdgen.patterns import pattern_problem
from epd_operator.api.markers import INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, PRESERVE_UNKNOWN, VALIDATIONS

Schema = dict[str, Any]

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

COMMON = frozenset({"type", "description", "default", VALIDATIONS, TYPE_NAME, TYPE_ABOUT})
ALLOWED = {
    "string": COMMON | {"minLength", "maxLength", "pattern", "enum"},
    "integer": COMMON | {"minimum", "maximum"},
    "boolean": COMMON,
    "array": COMMON | {"items", "minItems", "maxItems", LIST_TYPE, LIST_MAP_KEYS},
    "object": COMMON
    | {"properties", "required", "additionalProperties", "minProperties", "maxProperties", PRESERVE_UNKNOWN},
    INT_OR_STRING: COMMON | {INT_OR_STRING},
}
WAY_OUT = {
    "anyOf": "make the alternatives optional siblings with a Rule, or mark int | str with IntOrString",
    "oneOf": "make the alternatives optional siblings with a Rule",
    "exclusiveMinimum": "write ge=",
    "exclusiveMaximum": "write le=",
    "prefixItems": "use a list, or an object with named fields",
    "uniqueItems": "use list[...] with ListSet()",
    "format": "API server and pydantic check formats differently: use a pattern",
    "nullable": "null has no meaning of its own here: give the field the default None",
}


@dataclass(frozen=True)
class _Walk:
    definitions: Mapping[str, Schema]

    def convert(self, node: Schema, path: str, inside: tuple[str, ...] = ()) -> Schema:
        """The structural schema of one node and all below it."""
        node, inside = self._follow(node, path, inside)
        for refusal in node.pop(REFUSALS, []):
            raise CompileError(path, f"{refusal}: refused")
        node.pop("title", None)
        if "const" in node:
            node["enum"] = [node.pop("const")]
        kind = INT_OR_STRING if node.get(INT_OR_STRING) else node.get("type")
        if kind not in ALLOWED:
            self._refuse_keywords(node, path, frozenset())
            raise CompileError(path, f"type {kind!r} is not supported: use strings, integers, booleans, lists, objects")
        self._refuse_keywords(node, path, ALLOWED[kind])
        if "description" in node:
            node["description"] = " ".join(node["description"].split())
        match kind:
            case "string":
                _check_string(node, path)
            case "integer":
                _set_integer_format(node, path)
            case "array":
                self._convert_array(node, path, inside)
            case "object":
                self._convert_object(node, path, inside)
        return node

    def _follow(self, node: Schema, path: str, inside: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """A copy of the node with its reference replaced by what it names; siblings win, rules add up."""
        node = dict(node)
        while "$ref" in node:
            name = str(node.pop("$ref")).removeprefix("#/$defs/")
            if name in inside:
                raise CompileError(path, f"recursive model {name}: a structural schema has an end")
            inside = (*inside, name)
            target = self.definitions[name]
            rules = [*target.get(VALIDATIONS, []), *node.get(VALIDATIONS, [])]
            node = {**target, **node, **({VALIDATIONS: rules} if rules else {})}
        return node, inside

    def _refuse_keywords(self, node: Schema, path: str, allowed: frozenset[str]) -> None:
        for keyword in node:
            if keyword in WAY_OUT or (allowed and keyword not in allowed):
                hint = WAY_OUT.get(keyword, f"not supported for type {node.get('type')}")
                raise CompileError(path, f"keyword {keyword!r}: {hint}")

    def _convert_array(self, node: Schema, path: str, inside: tuple[str, ...]) -> None:
        _require(node, path, "maxItems", "give the list a max_length")
        if "items" not in node:
            raise CompileError(path, "keyword 'items' is missing: say what the list holds")
        node["items"] = self.convert(node["items"], f"{path}[]", inside)
        node.setdefault(LIST_TYPE, "atomic")
        _check_list_type(node, path)

    def _convert_object(self, node: Schema, path: str, inside: tuple[str, ...]) -> None:
        additional = node.get("additionalProperties")
        if isinstance(additional, bool):
            raise CompileError(
                path,
                f"keyword 'additionalProperties' is {str(additional).lower()}: models stay open (unknown fields are "
                "pruned), maps say the type of their values, and passed-on objects are marked PreserveUnknown",
            )
        if additional is not None:
            if "properties" in node:
                raise CompileError(path, "keyword 'additionalProperties' beside 'properties': a map or an object")
            _require(node, path, "maxProperties", "give the map a max_length")
            node["additionalProperties"] = self.convert(additional, f"{path}{{}}", inside)
        elif node.get("properties"):
            required = set(node.get("required", []))
            node["properties"] = {
                name: self._convert_property(child, f"{path}.{name}".lstrip("."), name in required, inside)
                for name, child in node["properties"].items()
            }
        elif not node.get(PRESERVE_UNKNOWN):
            raise CompileError(path, "an object without fields: the API server would prune all of it")

    def _convert_property(self, child: Schema, path: str, required: bool, inside: tuple[str, ...]) -> Schema:
        child = dict(child)
        if child.pop("nullable", False) and required:
            raise CompileError(path, f"keyword 'nullable': {WAY_OUT['nullable']}")
        return self.convert(child, path, inside)


def _require(node: Schema, path: str, keyword: str, way_out: str) -> None:
    if keyword not in node:
        raise CompileError(path, f"keyword {keyword!r} is missing: {way_out}, or rules over it cost too much")


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
        del node["maximum"]  # the format says it
        node["format"] = "int64"
    else:
        node["format"] = "int32" if node["maximum"] <= INT32_MAX else "int64"


def _check_list_type(node: Schema, path: str) -> None:
    items = node["items"]
    if node[LIST_TYPE] == "set" and items.get("type") not in {"string", "integer", "boolean"}:
        raise CompileError(path, f"keyword {LIST_TYPE!r}: only lists of scalars are sets, use ListMap")
    for key in node.get(LIST_MAP_KEYS, []):
        declared = items.get("properties", {}).get(key)
        if declared is None:
            raise CompileError(path, f"keyword {LIST_MAP_KEYS!r}: items have no field {key!r}")
        if key not in items.get("required", []) and "default" not in declared:
            raise CompileError(path, f"keyword {LIST_MAP_KEYS!r}: {key!r} must be required or have a default")


def structural_schema(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """The structural schema of a model's JSON schema; TYPE_NAME and TYPE_ABOUT stay in it.

    Raises:
        CompileError: something in it has no place in a structural schema.
    """
    return _Walk(definitions).convert(schema, "")


def children(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The schemas directly below one, each with what it adds to the path."""
    for name, child in schema.get("properties", {}).items():
        yield f".{name}", child
    if "items" in schema:
        yield "[]", schema["items"]
    if "additionalProperties" in schema:
        yield "{}", schema["additionalProperties"]

"""Writes docs/api-reference.md, with every field of a kind, from the structural schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from crdgen.crd import Names
from crdgen.generate import TYPE_DESCRIPTION, TYPE_NAME
from crdgen.structural import Schema, children
from epd_operator.api.markers import (
    INT_OR_STRING,
    LIST_MAP_KEYS,
    LIST_TYPE,
    PRESERVE_UNKNOWN,
    VALIDATIONS,
    PrinterColumn,
)

MAX_LISTED_PATHS = 8

INTRODUCTION = """\
This page has the same paths of fields as the error messages of the API server. *Required* fields have no default. The
API server writes defaults into the object, so `kubectl get -o yaml` shows them. Amounts are Kubernetes quantities
(`16Gi`, `500m`), and durations are whole seconds. `kubectl apply` refuses unknown fields.
"""


def reference(schema: Schema, *, names: Names, columns: tuple[PrinterColumn, ...]) -> str:
    """The reference page of one kind."""
    paths_by_type: dict[str, list[str]] = {}
    types: dict[str, Schema] = {}
    for path, node in _objects(schema, ""):
        paths_by_type.setdefault(node[TYPE_NAME], []).append(path)
        types.setdefault(node[TYPE_NAME], node)
    kind = types.pop(names.kind)
    parts = [
        f"# API reference: {names.kind}",
        kind["description"],
        f"`apiVersion: {names.group}/{names.version}`, `kind: {names.kind}`; for kubectl: "
        f"{', '.join(f'`{name}`' for name in (names.plural, *names.short_names))}. Namespaced, with `/status`.",
        INTRODUCTION.strip(),
        "\n".join(
            f"- [`{path}`](#{name.lower()})" for name in types for path in paths_by_type[name][:1] if "." not in path
        ),
        *_rules(kind),
        "`kubectl get` shows " + ", ".join(f"**{c.name}**{_wide(c)}" for c in columns) + ".",
        *(part for name, node in types.items() for part in _type_section(name, node, paths_by_type[name])),
    ]
    return "\n\n".join(parts) + "\n"


def _wide(column: PrinterColumn) -> str:
    return " (with `-o wide`)" if column.priority else ""


def _objects(node: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """All objects with a model, with their paths, in depth-first order."""
    if TYPE_NAME in node:
        yield path, node
    for step, child in children(node):
        yield from _objects(child, f"{path}{step}".lstrip("."))


def _type_section(name: str, node: Schema, paths: list[str]) -> Iterator[str]:
    yield f"## {name}"
    yield node[TYPE_DESCRIPTION]
    more = f" and {len(paths) - MAX_LISTED_PATHS} more places" if len(paths) > MAX_LISTED_PATHS else ""
    yield "At " + ", ".join(f"`{path}`" for path in paths[:MAX_LISTED_PATHS]) + more + "."
    required = node.get("required", [])
    rows = [_row(field, child, required=field in required) for field, child in node["properties"].items()]
    yield "\n".join(["| field | type | default | limits | |", "| --- | --- | --- | --- | --- |", *rows])
    if node.get(PRESERVE_UNKNOWN):
        yield "All other fields are passed through unchanged."
    yield from _rules(node)


def _row(field: str, node: Schema, *, required: bool) -> str:
    default = "*required*" if required else f"`{_flow(node['default'])}`" if "default" in node else ""
    description = node.get("description", "")
    rules = [rule["message"] for rule in _scalar_rules(node)]
    of_items = [rule["message"] for rule in _scalar_rules(node.get("items", {}))]
    refused = [*(f"Refused: {message}." for message in rules), *(f"Refused items: {message}." for message in of_items)]
    text = " ".join([description, *refused])
    cells = [f"`{field}`", _type(node), default, "; ".join(_limits(node)), text]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _scalar_rules(node: Schema) -> list[dict[str, str]]:
    """Rules of a value without its own section."""
    return [] if TYPE_NAME in node else node.get(VALIDATIONS, [])


def _type(node: Schema) -> str:
    if TYPE_NAME in node:
        return f"[{node[TYPE_NAME]}](#{node[TYPE_NAME].lower()})"
    if "enum" in node:
        return " or ".join(f"`{value}`" for value in node["enum"])
    if node.get(INT_OR_STRING):
        return "integer or string"
    if node["type"] == "array":
        keys = node.get(LIST_MAP_KEYS)
        unique = f", unique by `{'`, `'.join(keys)}`" if keys else ", unique" if node[LIST_TYPE] == "set" else ""
        return f"list of {_type(node['items'])}{unique}"
    if "additionalProperties" in node:
        return f"map to {_type(node['additionalProperties'])}"
    return "object, passed through unchanged" if node.get(PRESERVE_UNKNOWN) else str(node["type"])


def _limits(node: Schema) -> Iterator[str]:
    if "enum" in node:
        return
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None or high is not None:
        yield f"{'' if low is None else low}…{'' if high is None else high}"
    for what, unit in (("Length", "characters"), ("Items", "items"), ("Properties", "entries")):
        low, high = node.get(f"min{what}", 0), node.get(f"max{what}")
        if high is not None:
            yield f"{low}…{high} {unit}" if low else f"at most {high} {unit}"
    if "pattern" in node:
        yield f"`{node['pattern']}`"
    for child in (node.get("items"), node.get("additionalProperties")):
        if child is not None and TYPE_NAME not in child:
            yield from (f"each {limit}" for limit in _limits(child))


def _rules(node: Schema) -> Iterator[str]:
    fields_by_message: dict[str, list[str]] = {}
    for rule in node.get(VALIDATIONS, []):
        fields = fields_by_message.setdefault(rule["message"], [])
        fields += [f"`{rule['fieldPath'].lstrip('.')}`"] if "fieldPath" in rule else []
    if fields_by_message:
        lines = [f"- {', '.join(fields)}{': ' * bool(fields)}{text}" for text, fields in fields_by_message.items()]
        yield "Refused, with the message:\n\n" + "\n".join(lines)


def _flow(value: Any) -> str:
    """The value as one line of YAML."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")

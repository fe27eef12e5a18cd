"""Builds the CustomResourceDefinition of a kind from its structural schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from crdgen.generate import TYPE_DESCRIPTION, TYPE_NAME, model_json_schema
from crdgen.structural import Schema, structural_schema
from epd_operator.api.markers import PrinterColumn

KEYWORD_ORDER = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
    "required",
    "properties",
    "additionalProperties",
    "items",
)
ROOT_PROPERTIES: dict[str, Schema] = {
    "apiVersion": {"type": "string", "description": "Version of the schema of this object."},
    "kind": {"type": "string", "description": "Kind of this object."},
    "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},  # rules may refer to the name
}


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names of a kind."""

    group: str
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScalePaths:
    """Paths of the fields that the scale subresource uses."""

    spec_replicas: str
    status_replicas: str
    label_selector: str

    def as_subresource(self) -> dict[str, str]:
        """The scale subresource in a CustomResourceDefinition."""
        return {
            "specReplicasPath": self.spec_replicas,
            "statusReplicasPath": self.status_replicas,
            "labelSelectorPath": self.label_selector,
        }


def compile_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of a kind. It contains the names of models under TYPE_NAME.

    Raises:
        CompileError: the model cannot be expressed as a structural schema.
    """
    schema, definitions = model_json_schema(model)
    properties = schema["properties"]
    for name in ROOT_PROPERTIES:
        properties.pop(name, None)
    root = structural_schema(schema, definitions)
    root["properties"] = {**ROOT_PROPERTIES, **root["properties"]}
    return root


def compile_crd(
    model: type[BaseModel], *, names: Names, columns: tuple[PrinterColumn, ...], scale: ScalePaths | None = None
) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind.

    Raises:
        CompileError: the model cannot be expressed as a structural schema.
    """
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.plural}.{names.group}"},
        "spec": {
            "group": names.group,
            "names": {
                "kind": names.kind,
                "listKind": f"{names.kind}List",
                "plural": names.plural,
                "singular": names.kind.lower(),
                "shortNames": list(names.short_names),
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": names.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}, **({"scale": scale.as_subresource()} if scale else {})},
                    "additionalPrinterColumns": [_column(column) for column in columns],
                    "schema": {"openAPIV3Schema": public_schema(compile_schema(model))},
                }
            ],
        },
    }


def _column(column: PrinterColumn) -> dict[str, Any]:
    optional: dict[str, Any] = {"description": column.description, "priority": column.priority}
    written = {key: value for key, value in optional.items() if value}
    return {"name": column.name, "type": column.type, "jsonPath": column.json_path, **written}


def public_schema(schema: Schema) -> Schema:
    """The schema without the private keywords of the compiler, with its keywords in a fixed order."""
    result = {key: schema[key] for key in KEYWORD_ORDER if key in schema}
    unordered = schema.keys() - result.keys() - {TYPE_NAME, TYPE_DESCRIPTION}
    if unordered:
        raise KeyError(f"keywords that are missing in KEYWORD_ORDER: {sorted(unordered)}")
    if "properties" in result:
        result["properties"] = {name: public_schema(child) for name, child in result["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if keyword in result:
            result[keyword] = public_schema(result[keyword])
    return result

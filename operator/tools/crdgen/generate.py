"""Generates the JSON schema of a model, with the additions that structural schemas need.

The subclass of pydantic's generator adds defaults from factories and the CEL rules of models. For structural.py it adds
private keywords: the name and description of each model, and its unsupported features. structural.py knows the path of
each field, so it reports them as errors.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema, to_jsonable_python

from epd_operator.api.markers import VALIDATIONS, Rule

TYPE_NAME = "x-epd-type"
"""Name of the model that a schema describes."""

TYPE_DESCRIPTION = "x-epd-type-description"
"""Docstring of the model. The description of a field with this model may differ from it."""

UNSUPPORTED = "x-epd-unsupported"
"""Features of a model that a schema cannot express."""


class KubernetesJsonSchema(GenerateJsonSchema):
    """pydantic's generator, with null values and defaults as in Kubernetes."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - overridden
        """No titles: they only repeat the names of the fields."""
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """``T | None`` has the schema of T. structural.py checks whether null is allowed."""
        return {**self.generate_inner(schema["schema"]), "nullable": True}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Add the default, also from a factory, unless it is None.

        Of a default object, add only fields that differ from the defaults of its model. The API server sets the rest.
        """
        inner = self.generate_inner(schema["schema"])
        if schema.get("default_factory_takes_data"):
            return {**inner, UNSUPPORTED: ["a default computed from other fields"]}
        default = schema["default_factory"]() if "default_factory" in schema else schema.get("default")  # type: ignore[call-arg]
        if default is None:
            return inner
        if isinstance(default, BaseModel):
            default = default.model_dump(by_alias=True, exclude_defaults=True)
        return {**inner, "default": to_jsonable_python(default, by_alias=True)}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Add the name, docstring, rules and unsupported features of the model."""
        model: type[BaseModel] = schema["cls"]
        described = super().model_schema(schema)
        described[TYPE_NAME] = model.__name__
        described[TYPE_DESCRIPTION] = cleandoc(model.__doc__ or "")
        rules: tuple[Rule, ...] = getattr(model, "rules", ())
        if rules:
            described[VALIDATIONS] = [rule.as_schema() for rule in rules]
        unsupported = _unsupported_features(model)
        if unsupported:
            described[UNSUPPORTED] = unsupported
        return described


def _unsupported_features(model: type[BaseModel]) -> list[str]:
    """Features of the model that a schema cannot express."""
    found = [f"computed field {name!r}" for name in model.model_computed_fields]
    decorators = model.__pydantic_decorators__
    for kind, named in (
        ("serializer", {**decorators.field_serializers, **decorators.model_serializers}),
        ("validator", {**decorators.field_validators, **decorators.model_validators, **decorators.validators}),
    ):
        found += [f"{kind} {name!r}, which the API server cannot run" for name in named]
    for name, field in model.model_fields.items():
        aliases = {field.alias, field.validation_alias, field.serialization_alias}
        if aliases != {to_camel(name)}:
            found.append(f"field {name!r} with an alias other than {to_camel(name)!r}")
    return found


def model_json_schema(model: type[BaseModel]) -> tuple[JsonSchemaValue, dict[str, JsonSchemaValue]]:
    """The JSON schema of a model, and the definitions to which it refers."""
    schema = model.model_json_schema(by_alias=True, schema_generator=KubernetesJsonSchema, mode="validation")
    definitions: dict[str, JsonSchemaValue] = schema.pop("$defs", {})
    return schema, definitions

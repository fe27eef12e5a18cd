"""JSON schema of the models, as pydantic sees them, with what structural schemas need added.

pydantic tells the shape; this subclass adds what it leaves out (defaults made by factories, CEL rules of a model) and
leaves notes, under private keywords, for the walk in structural.py, which knows the path and refuses.
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

TYPE_ABOUT = "x-epd-about"
"""What the model says of itself; a field that holds it may say something nearer."""

REFUSALS = "x-epd-refusals"
"""What a model does that no schema can say."""


class KubernetesJsonSchema(GenerateJsonSchema):
    """pydantic's generator, with Kubernetes' idea of null and of defaults."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the base class names it
        """Titles repeat the field's name: none."""
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """``T | None`` is T; the walk decides whether null may stand here."""
        return {**self.generate_inner(schema["schema"]), "nullable": True}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Keep real defaults, those of factories included; absence needs none.

        A default object is told by what differs from its own defaults, often ``{}``: the server fills the rest.
        """
        inner = self.generate_inner(schema["schema"])
        if schema.get("default_factory_takes_data"):
            return {**inner, REFUSALS: ["a default computed from other fields"]}
        default = schema["default_factory"]() if "default_factory" in schema else schema.get("default")  # type: ignore[call-arg]
        if default is None:
            return inner
        if isinstance(default, BaseModel):
            default = default.model_dump(by_alias=True, exclude_defaults=True)
        return {**inner, "default": to_jsonable_python(default, by_alias=True)}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Add the rules of the model and what has to be refused in it."""
        model: type[BaseModel] = schema["cls"]
        described = super().model_schema(schema)
        described[TYPE_NAME] = model.__name__
        described[TYPE_ABOUT] = cleandoc(model.__doc__ or "")
        rules: tuple[Rule, ...] = getattr(model, "rules", ())
        if rules:
            described[VALIDATIONS] = [rule.as_schema() for rule in rules]
        refusals = _refusals(model)
        if refusals:
            described[REFUSALS] = refusals
        return described


def _refusals(model: type[BaseModel]) -> list[str]:
    """What the schema would not say about this model."""
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
            found.append(f"field {name!r} with another wire name than {to_camel(name)!r}")
    return found


def model_json_schema(model: type[BaseModel]) -> tuple[JsonSchemaValue, dict[str, JsonSchemaValue]]:
    """The schema of a model, and the definitions that its references name."""
    schema = model.model_json_schema(by_alias=True, schema_generator=KubernetesJsonSchema, mode="validation")
    definitions: dict[str, JsonSchemaValue] = schema.pop("$defs", {})
    return schema, definitions

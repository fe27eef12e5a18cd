"""The pydantic models and the schema of the CRD accept exactly the same objects.

CEL rules run only in the API server, so these tests leave them out. The API server removes null values before it
validates (tests/api/test_crds.py), so models never receive them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from crdgen.generate import TYPE_NAME
from crdgen.structural import children
from hypothesis import HealthCheck, given, settings
from pydantic import BaseModel, ValidationError

from epd_operator.api.v1alpha1 import EPDDeployment, EPDDeploymentSpec
from epd_operator.api.v1alpha1.base import ApiModel
from support.bad_objects import BAD_OBJECTS, Bad
from support.edges import edges, simplest
from support.from_schema import accepted, almost_accepted
from support.schemas import Schema, compiled, prune_null, schema_accepts

SPEC = compiled()["properties"]["spec"]
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in model.__subclasses__():
        yield child
        yield from _models(child)


def _types(schema: Schema) -> Iterator[tuple[str, Schema]]:
    if TYPE_NAME in schema:
        yield schema[TYPE_NAME], schema
    for _, child in children(schema):
        yield from _types(child)


MODELS = {model.__name__: model for model in _models(ApiModel) if model.__module__.startswith("epd_operator.")}
TYPES = {name: schema for name, schema in _types(compiled()) if name != "EPDDeployment"}
FIELDS = [(name, field) for name, schema in TYPES.items() for field in schema["properties"]]


def model_accepts(model: type[BaseModel], value: Any) -> bool:
    try:
        model.model_validate(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=lambda part: part)
def test_model_and_schema_agree_on_boundary_values(name: str, field: str) -> None:
    model, schema = MODELS[name], TYPES[name]
    verdicts = set()
    for value in edges(schema["properties"][field]):
        pruned = prune_null({**simplest(schema), field: value})
        verdict = schema_accepts(schema, pruned)
        assert model_accepts(model, pruned) == verdict, f"{field}: {value!r}"
        verdicts.add(verdict)
    assert verdicts == {True, False}
    absent = {key: value for key, value in simplest(schema).items() if key != field}
    assert model_accepts(model, absent) == schema_accepts(schema, absent)


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(accepted(SPEC))
def test_the_model_accepts_every_spec_that_the_schema_accepts_and_writes_a_valid_one(spec: dict[str, Any]) -> None:
    assert schema_accepts(SPEC, spec)
    read = EPDDeploymentSpec.model_validate(spec)
    written = read.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert schema_accepts(SPEC, written)
    assert EPDDeploymentSpec.model_validate(written) == read


@settings(max_examples=50, deadline=None, suppress_health_check=SLOW)
@given(almost_accepted(SPEC))
def test_model_and_schema_agree_on_specs_with_one_invalid_value(spec: dict[str, Any]) -> None:
    spec = prune_null(spec)
    assert model_accepts(EPDDeploymentSpec, spec) == schema_accepts(SPEC, spec)


@pytest.mark.parametrize("bad", BAD_OBJECTS, ids=lambda bad: bad.sentence)
def test_model_and_schema_agree_on_the_bad_objects(bad: Bad) -> None:
    value = bad.object()
    assert model_accepts(EPDDeployment, value) == schema_accepts(compiled(), value)

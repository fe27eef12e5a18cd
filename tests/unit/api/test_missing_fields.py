"""Fields of the models that a served schema lacks."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from epd_operator.api.missing_fields import missing_fields
from epd_operator.api.v1alpha1.epddeployment import EPDDeployment
from epd_operator.api.v1alpha1.epdstagescale import EPDStageScale

CRDS = Path(__file__).parents[3] / "crds"


def schema_of(name: str) -> dict[str, Any]:
    crd = yaml.safe_load((CRDS / f"epd.dev_{name}.yaml").read_text())
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


CURRENT = schema_of("epddeployments")


def properties(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
    """Path, parent and name of each property, but not those of objects of Kubernetes, which have no model here."""
    for name, inner in schema.get("properties", {}).items():
        place = f"{path}.{name}" if path else name
        if place == "metadata" or path.endswith(("volumes[]", "volumeMounts[]")):
            continue
        yield place, schema["properties"], name
        if "items" in inner:
            yield from properties(inner["items"], f"{place}[]")
        yield from properties(inner, place)


@pytest.mark.parametrize(("model", "name"), [(EPDDeployment, "epddeployments"), (EPDStageScale, "epdstagescales")])
def test_the_crd_of_this_version_lacks_nothing(model: type[BaseModel], name: str) -> None:
    assert list(missing_fields(model, schema_of(name))) == []


def test_every_field_that_is_removed_is_found_by_its_path() -> None:
    places = [place for place, _, _ in properties(CURRENT)]
    assert len(places) > 100
    for number, place in enumerate(places):
        old = copy.deepcopy(CURRENT)
        _, parent, name = next(islice(properties(old), number, None))
        del parent[name]
        assert list(missing_fields(EPDDeployment, old)) == [place]


def test_a_value_of_an_enumeration_that_is_removed_is_found() -> None:
    old = copy.deepcopy(CURRENT)
    old["properties"]["spec"]["properties"]["topology"]["enum"].remove("CoLocated")
    assert list(missing_fields(EPDDeployment, old)) == ["spec.topology: CoLocated"]


def test_a_crd_of_a_later_version_lacks_nothing() -> None:
    later = copy.deepcopy(CURRENT)
    later["properties"]["spec"]["properties"]["future"] = {"type": "string"}
    assert list(missing_fields(EPDDeployment, later)) == []


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["properties", "spec", "enum", "items"]), inner)
    ),
    max_leaves=20,
)


@given(schema=anything)
def test_no_schema_raises(schema: Any) -> None:
    list(missing_fields(EPDDeployment, schema))

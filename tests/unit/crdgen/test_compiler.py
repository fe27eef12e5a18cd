"""How the compiler translates models, and how it refuses what a structural schema cannot express."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from crdgen import CompileError, compile_schema
from crdgen.crd import public_schema
from crdgen.patterns import pattern_problem
from pydantic import ConfigDict, Field, computed_field, field_serializer, field_validator

from epd_operator.api.markers import Int, Int64, ListMap, ListSet, PreserveUnknown, Quantity, Rule
from epd_operator.api.v1alpha1.base import ApiModel

Word = Annotated[str, Field(max_length=10)]


class Leaf(ApiModel):
    """A leaf."""

    name: Word = Field(description="Its name.")
    size: Annotated[Int, Field(ge=0, le=9)] = Field(default=3, description="Its size.")


class Pair(ApiModel):
    """Has fields with names of two words."""

    left_leaf: Leaf
    right_leaf: Leaf | None = None


def kind_of(spec: Any, *, default: Any = ...) -> type[ApiModel]:
    """A kind whose spec has one field."""
    body = type("Body", (ApiModel,), {"__annotations__": {"field": spec}, "field": Field(default)})
    return type("Kind", (ApiModel,), {"__annotations__": {"spec": body}})


def compiled(spec: Any, *, default: Any = ...) -> dict[str, Any]:
    """The public schema of that field."""
    schema = public_schema(compile_schema(kind_of(spec, default=default)))
    field: dict[str, Any] = schema["properties"]["spec"]["properties"]["field"]
    return field


def required(spec: Any, *, default: Any = ...) -> bool:
    """Whether that field is required."""
    schema = public_schema(compile_schema(kind_of(spec, default=default)))
    return "field" in schema["properties"]["spec"].get("required", [])


class Colour(StrEnum):
    """A colour."""

    RED = "Red"
    BLUE = "Blue"


class Only(StrEnum):
    """One value."""

    ONE = "One"


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Word, {"type": "string", "maxLength": 10}),
        (Annotated[Int, Field(ge=1, le=5)], {"type": "integer", "format": "int32", "minimum": 1, "maximum": 5}),
        (Annotated[Int, Field(le=2**40)], {"type": "integer", "format": "int64", "maximum": 2**40}),
        (Int64, {"type": "integer", "format": "int64"}),
        (bool, {"type": "boolean"}),
        (Colour, {"type": "string", "description": "A colour.", "enum": ["Red", "Blue"]}),
        (Only, {"type": "string", "description": "One value.", "enum": ["One"]}),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (
            Annotated[dict[str, Word], Field(max_length=4)],
            {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "string", "maxLength": 10}},
        ),
        (
            Annotated[list[Word], Field(min_length=1, max_length=4), ListSet()],
            {
                "type": "array",
                "minItems": 1,
                "maxItems": 4,
                "x-kubernetes-list-type": "set",
                "items": {"type": "string", "maxLength": 10},
            },
        ),
        (
            Annotated[list[Word], Field(max_length=4)],
            {
                "type": "array",
                "maxItems": 4,
                "x-kubernetes-list-type": "atomic",
                "items": {"type": "string", "maxLength": 10},
            },
        ),
        (
            Annotated[dict[str, Any], PreserveUnknown()],
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        ),
        (
            Annotated[Word, Rule(expression="self != 'x'", message="not x", reason="FieldValueForbidden")],
            {
                "type": "string",
                "maxLength": 10,
                "x-kubernetes-validations": [
                    {"rule": "self != 'x'", "message": "not x", "reason": "FieldValueForbidden"}
                ],
            },
        ),
    ],
    ids=str,
)
def test_the_compiler_translates_the_annotation(annotation: Any, schema: dict[str, Any]) -> None:
    assert compiled(annotation) == schema


def test_list_maps_and_partly_known_objects_have_the_schema_of_their_fields() -> None:
    leaf = {
        "description": "A leaf.",
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"description": "Its name.", "type": "string", "maxLength": 10},
            "size": {
                "description": "Its size.",
                "type": "integer",
                "format": "int32",
                "default": 3,
                "minimum": 0,
                "maximum": 9,
            },
        },
    }
    keyed = compiled(Annotated[list[Leaf], Field(max_length=4), ListMap(("name",))])
    assert keyed["x-kubernetes-list-map-keys"] == ["name"]
    assert keyed["items"] == leaf
    partly_known = compiled(Annotated[dict[str, Any], PreserveUnknown(Leaf)])
    assert partly_known == {**leaf, "x-kubernetes-preserve-unknown-fields": True}


def test_optional_fields_are_neither_required_nor_nullable() -> None:
    assert compiled(Word | None, default=None) == compiled(Word)
    assert not required(Word | None, default=None)
    assert required(Word)


@pytest.mark.parametrize(
    ("annotation", "default", "written"),
    [
        (Word, "x", "x"),
        (Colour, Colour.RED, "Red"),
        (Annotated[list[Word], Field(max_length=3)], ["a"], ["a"]),
        (Leaf, Leaf(name="a"), {"name": "a"}),
        (Leaf, Leaf(name="a", size=4), {"name": "a", "size": 4}),
        (Pair, Pair(left_leaf=Leaf(name="a")), {"leftLeaf": {"name": "a"}}),
    ],
    ids=str,
)
def test_defaults_are_kept_and_objects_omit_fields_that_equal_their_own_defaults(
    annotation: Any, default: Any, written: Any
) -> None:
    assert compiled(annotation, default=default)["default"] == written


def test_the_default_of_an_object_with_only_defaults_is_an_empty_object() -> None:
    class Settings(ApiModel):
        """Settings."""

        size: Annotated[Int, Field(le=9)] = 3

    class Body(ApiModel):
        """Body."""

        settings: Settings = Field(default_factory=Settings)

    class Kind(ApiModel):
        """Kind."""

        spec: Body

    schema = compile_schema(Kind)
    assert schema["properties"]["spec"]["properties"]["settings"]["default"] == {}
    assert schema["required"] == ["spec"]


class Recursive(ApiModel):
    """Holds itself."""

    child: Recursive | None = None


class Computed(ApiModel):
    """Computes."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        """Computed."""
        return 2


class Serialised(ApiModel):
    """Serialises."""

    word: Word

    @field_serializer("word")
    def _upper(self, value: str) -> str:
        return value.upper()


class Validated(ApiModel):
    """Validates."""

    word: Word

    @field_validator("word")
    @classmethod
    def _short(cls, value: str) -> str:
        return value


class Renamed(ApiModel):
    """Renames."""

    word: Word = Field(alias="Word")


class Forbidding(ApiModel):
    """Forbids."""

    model_config = ConfigDict(extra="forbid")
    word: Word


class Empty(ApiModel):
    """Has no field."""


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        (str, "keyword 'maxLength' is missing: give the string a max_length"),
        (list[Word], "keyword 'maxItems' is missing: give the list a max_length"),
        (dict[str, Word], "keyword 'maxProperties' is missing: give the map a max_length"),
        (int, "keyword 'maximum' is missing: give the integer an upper limit (le=), or use Int64"),
        (float, "type 'number' is not supported: use strings, integers"),
        (Any, "type None is not supported"),
        (int | Word, "keyword 'anyOf': use optional sibling fields with a Rule"),
        (Annotated[Int, Field(gt=0, le=9)], "keyword 'exclusiveMinimum': use ge="),
        (Annotated[Int, Field(ge=0, lt=9)], "keyword 'exclusiveMaximum': use le="),
        (Annotated[Int, Field(multiple_of=2, le=8)], "keyword 'multipleOf': not supported for type integer"),
        (Annotated[set[Word], Field(max_length=3)], "keyword 'uniqueItems': use list[...] with ListSet()"),
        (tuple[Word, Word], "keyword 'prefixItems': use a list, or an object with named fields"),
        (Annotated[list[Any], Field(max_length=3)], "type None is not supported"),
        (dict[str, Any], "keyword 'additionalProperties' is true: use a model"),
        (Forbidding, "keyword 'additionalProperties' is false: use a model"),
        (Empty, "an object without fields: the API server would prune all its content"),
        (Recursive, "recursive model Recursive: a structural schema cannot be recursive"),
        (Computed, "computed field 'twice': not supported"),
        (Serialised, "serializer '_upper', which the API server cannot run: not supported"),
        (Validated, "validator '_short', which the API server cannot run: not supported"),
        (Renamed, "field 'word' with an alias other than 'word': not supported"),
        (Word | None, "keyword 'nullable': null is not a value: give the field the default None"),
        (Annotated[list[Word | None], Field(max_length=3)], "keyword 'nullable': null is not a value"),
        (
            Annotated[str, Field(max_length=9, json_schema_extra={"format": "date-time"})],
            "keyword 'format': the API server and pydantic validate formats differently: use a pattern",
        ),
        (
            Annotated[Word, Field(json_schema_extra={"x-kubernetes-embedded-resource": True})],
            "keyword 'x-kubernetes-embedded-resource': not supported for type string",
        ),
        (Annotated[str, Field(max_length=9, pattern="a+")], "keyword 'pattern': add anchors: ^...$"),
        (
            Annotated[list[Leaf], Field(max_length=3), ListSet()],
            "keyword 'x-kubernetes-list-type': only lists of scalars can be sets: use ListMap",
        ),
        (
            Annotated[list[Leaf], Field(max_length=3), ListMap(("colour",))],
            "keyword 'x-kubernetes-list-map-keys': the items have no field 'colour'",
        ),
    ],
    ids=str,
)
def test_an_unsupported_annotation_is_refused_with_its_path(annotation: Any, problem: str) -> None:
    with pytest.raises(CompileError) as refused:
        compiled(annotation)
    assert refused.value.path.startswith("spec.field")
    assert refused.value.problem.startswith(problem)
    assert str(refused.value) == f"{refused.value.path}: {refused.value.problem}"


def test_the_path_of_a_problem_includes_lists_and_maps() -> None:
    class Pool(ApiModel):
        """A pool."""

        sizes: Annotated[dict[str, Annotated[list[float], Field(max_length=2)]], Field(max_length=2)]

    with pytest.raises(CompileError, match=r"^spec\.field\[\]\.sizes\{\}\[\]: type 'number'"):
        compiled(Annotated[list[Pool], Field(max_length=2)])


def test_keys_of_a_list_map_must_be_required_or_have_a_default() -> None:
    class Item(ApiModel):
        """An item whose key may be absent."""

        name: Word | None = None

    with pytest.raises(CompileError, match="'name' must be required or have a default"):
        compiled(Annotated[list[Item], Field(max_length=2), ListMap(("name",))])


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (r"^\d+$", "'\\d' differs between regular expression engines"),
        (r"^\S$", "'\\S' differs between regular expression engines"),
        (r"^a\b$", "'\\b' differs between regular expression engines"),
        (r"^(a)\1$", "'\\1' differs between regular expression engines"),
        (r"^(?=a)a$", "groups that start with (? are not portable"),
        (r"^(?P<x>a)$", "groups that start with (? are not portable"),
        (r"a$", "add anchors"),
        (r"^a", "add anchors"),
        (r"^a|b$", "put the alternatives in parentheses"),
        (r"^(a$", "not a regular expression"),
    ],
)
def test_patterns_that_regular_expression_engines_interpret_differently_are_refused(pattern: str, problem: str) -> None:
    assert (pattern_problem(pattern) or "").startswith(problem)


@pytest.mark.parametrize("pattern", [r"^(a|b)$", r"^[^|$^(?]+$", r"^(?:a|b)\.[\]|]$", r"^\(a\)$"])
def test_portable_patterns_are_accepted(pattern: str) -> None:
    assert pattern_problem(pattern) is None


def test_the_model_refuses_duplicate_items_as_the_api_server_does() -> None:
    class Lists(ApiModel):
        """Lists."""

        words: Annotated[list[Word], ListSet()] | None = None
        leaves: Annotated[list[Leaf], ListMap(("name",))] | None = None
        volumes: Annotated[list[Annotated[dict[str, Any], PreserveUnknown(Leaf)]], ListMap(("name",))] | None = None

    Lists.model_validate({"words": ["a", "b"], "leaves": [{"name": "a"}, {"name": "b"}], "volumes": [{"name": "a"}]})
    for field, items in (("words", ["a", "a"]), ("leaves", [{"name": "a"}] * 2), ("volumes", [{"name": "a"}] * 2)):
        with pytest.raises(ValueError, match="duplicate item"):
            Lists.model_validate({field: items})


def test_a_partly_known_object_keeps_its_unknown_fields() -> None:
    class Holder(ApiModel):
        """Holds a part of another API."""

        volume: Annotated[dict[str, Any], PreserveUnknown(Leaf)]

    volume = {"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}
    assert Holder.model_validate({"volume": volume}).volume == volume
    with pytest.raises(ValueError, match="size"):
        Holder.model_validate({"volume": {"name": "a", "size": "large"}})


def test_a_quantity_is_compiled_with_its_pattern_as_a_rule() -> None:
    schema = compiled(Quantity)
    assert "pattern" not in schema
    assert schema["x-kubernetes-validations"][0]["rule"].startswith("self.matches('^[0-9]+")

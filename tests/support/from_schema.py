"""Values from a structural schema, for property tests: some that it accepts, some with one error."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from support.schemas import Schema, pattern_of

MAX_LIST = 3
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2**40), st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda number: not number.is_integer()
    ), TEXT, st.just([]), st.just({}), st.just([{}]), st.just([1]), st.just({"name": 1}),
)  # fmt: skip


def accepted(schema: Schema) -> st.SearchStrategy[Any]:
    """Values that satisfy the schema (but for the uniqueness of sets' and maps' items beyond what is drawn)."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.one_of(st.integers(schema["minimum"], schema["maximum"]), _strings(schema))
    match schema["type"]:
        case "string":
            return _strings(schema)
        case "integer":
            return st.integers(schema.get("minimum", -(2**31)), schema.get("maximum", 2**31 - 1))
        case "boolean":
            return st.booleans()
        case "array":
            return _lists(schema)
        case _:
            return _objects(schema)


def _strings(schema: Schema) -> st.SearchStrategy[str]:
    low, high = schema.get("minLength", 0), min(schema.get("maxLength", 40), 40)
    pattern = pattern_of(schema)
    if pattern is None:
        return st.text(string.printable, min_size=low, max_size=high)
    return st.from_regex(pattern.removesuffix("$") + r"\Z").filter(
        lambda text: low <= len(text) <= schema.get("maxLength", 10**6)
    )


def _lists(schema: Schema) -> st.SearchStrategy[list[Any]]:
    keys = schema.get("x-kubernetes-list-map-keys", [])
    kind = schema["x-kubernetes-list-type"]

    def identity(item: Any) -> Any:
        return tuple(item.get(key) for key in keys) if kind == "map" else item

    return st.lists(
        accepted(schema["items"]),
        min_size=schema.get("minItems", 0),
        max_size=min(MAX_LIST, schema["maxItems"]),
        unique_by=None if kind == "atomic" else identity,
    )


def _objects(schema: Schema) -> st.SearchStrategy[dict[str, Any]]:
    if "additionalProperties" in schema:
        return st.dictionaries(TEXT, accepted(schema["additionalProperties"]), max_size=2)
    properties = schema.get("properties")
    if properties is None:
        return st.dictionaries(TEXT, ANYTHING, max_size=2)
    fields = {name: accepted(child) for name, child in properties.items()}
    required = set(schema.get("required", []))
    return st.fixed_dictionaries(
        {name: child for name, child in fields.items() if name in required},
        optional={name: child for name, child in fields.items() if name not in required},
    )


@st.composite
def almost_accepted(draw: st.DrawFn, schema: Schema) -> Any:
    """A value that satisfies the schema, except perhaps at one place."""
    value = draw(accepted(schema))
    places = list(_places(value, schema))
    if not places:
        return value
    holder, key, child = draw(st.sampled_from(places))
    if isinstance(holder, dict) and draw(st.booleans()):
        del holder[key]
    elif isinstance(holder, list) and draw(st.booleans()):
        holder.append(holder[key])
    else:
        holder[key] = draw(st.one_of(ANYTHING, *_edges(child)))
    return value


def _places(value: Any, schema: Schema) -> Iterator[tuple[Any, Any, Schema]]:
    """Every place below a value: what holds it, under which key, and its schema."""
    if isinstance(value, dict):
        for key, item in value.items():
            child = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if child is not None:
                yield value, key, child
                yield from _places(item, child)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index, schema["items"]
            yield from _places(item, schema["items"])


def _edges(schema: Schema) -> Iterator[st.SearchStrategy[Any]]:
    """Values just inside and just outside a schema's limits."""
    for limit in ("minimum", "maximum"):
        if limit in schema:
            yield st.sampled_from([schema[limit] + step for step in (-1, 0, 1)])
    for limit in ("minLength", "maxLength"):
        if limit in schema:
            yield st.sampled_from(["a" * max(schema[limit] + step, 0) for step in (-1, 0, 1)])
    if "pattern" in schema:
        good = st.from_regex(schema["pattern"].removesuffix("$") + r"\Z")
        yield st.builds(lambda before, text, after: before + text + after, TEXT, good, TEXT)
        yield good.map(lambda text: text + "\n")
    for limit in ("minItems", "maxItems"):
        if limit in schema and schema[limit] <= 64:
            sizes = st.sampled_from([max(schema[limit] + step, 0) for step in (-1, 0, 1)])
            yield st.builds(lambda item, size: [item] * size, accepted(schema["items"]), sizes)
    if "maxProperties" in schema:
        sizes = st.sampled_from([schema["maxProperties"] + step for step in (0, 1)])
        value = accepted(schema["additionalProperties"])
        yield st.builds(lambda item, size: {f"k{index}": item for index in range(size)}, value, sizes)

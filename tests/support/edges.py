"""Values at and beyond every limit of a structural schema, without randomness: the same in every run."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

from support.schemas import Schema, pattern_of

WORDS = (
    *("a", "/a", "1Gi", "a/b", "A", "2026-11-29T12:00:00Z"),
    *("", " ", "a b", "a\n", "\na", "a\u00a0b", "\u0663", "é", "-a", "a-", ".a", "a.b", "a_b", "A_B"),
    *("a/", "/", "/a:b"),
    *("a/b/c", "1", "0", "1.5Gi", "1.Gi", "Gi", "1gi", "-1", "1e3", "true", "--flag", "metadata.name"),
    *("2026-11-29 12:00:00Z", "2026-11-29T12:00:00.5Z", "2026-11-29T12:00:00+01:00"),
)  # fmt: skip
WRONG_TYPES: tuple[Any, ...] = (None, True, 1, 1.5, "word", [], {}, [1], ["a"], {"a": 1}, {"a": "b"}, [{}], [None])


def simplest(schema: Schema, number: int = 0) -> Any:
    """A value that the schema accepts, a different one for each number where values can differ."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return schema["minimum"]
    match schema["type"]:
        case "string":
            return next(text for text in _numbered(number) if _fits(schema, text))
        case "integer":
            return schema.get("minimum", 0)
        case "boolean":
            return True
        case "array":
            return [simplest(schema["items"], index) for index in range(schema.get("minItems", 0))]
        case _:
            properties = schema.get("properties", {})
            return {name: simplest(properties[name], number) for name in schema.get("required", [])}


def edges(schema: Schema) -> Iterator[Any]:
    """Values around the limits of one schema, valid and invalid."""
    yield from copy.deepcopy(WRONG_TYPES)
    yield simplest(schema)
    if "enum" in schema:
        yield from schema["enum"]
        yield from (value.lower() for value in schema["enum"])
        return
    if schema.get("x-kubernetes-int-or-string"):
        yield from edges({**schema, "type": "integer", "x-kubernetes-int-or-string": False})
        yield from (*WORDS, "0%", "25%", "100%", "101%", "025%", "-1%", "25 %", "%", "25%\n")
        return
    match schema["type"]:
        case "integer":
            for limit in ("minimum", "maximum"):  # an int64 without limits has nothing to test
                yield from (schema[limit] + step for step in (-1, 0, 1) if limit in schema)
            yield str(simplest(schema))
        case "string":
            yield from WORDS
            yield from _lengths(schema)
        case "array":
            for size in _around(schema.get("minItems"), schema["maxItems"]):
                yield [simplest(schema["items"], index) for index in range(size)]
            yield [simplest(schema["items"])] * 2
            yield from ([value] for value in edges(schema["items"]))
        case "object" if "additionalProperties" in schema:
            value = simplest(schema["additionalProperties"])
            for size in _around(None, schema["maxProperties"]):
                yield {f"k{index}": value for index in range(size)}
            yield from ({"k": value} for value in edges(schema["additionalProperties"]))


def _numbered(number: int) -> Iterator[str]:
    yield from (
        f"a{number}",
        f"/a{number}",
        f"{number + 1}Gi",
        f"A{number}",
        f"a/b{number}",
        f"2026-11-29T12:00:{number:02}Z",
        f"{number % 100}",
        f"https://a/{number}",
    )


def _fits(schema: Schema, text: str) -> bool:
    pattern = (pattern_of(schema) or "^.*$").removesuffix("$") + r"\Z"
    return schema.get("minLength", 0) <= len(text) <= schema["maxLength"] and re.search(pattern, text) is not None


def _lengths(schema: Schema) -> Iterator[str]:
    start = simplest(schema)
    for size in _around(schema.get("minLength"), schema["maxLength"]):
        yield start[:size] if size < len(start) else start[0] + "1" * (size - len(start)) + start[1:]


def _around(low: int | None, high: int) -> list[int]:
    limits = [high] if low is None else [low, high]
    return sorted({max(limit + step, 0) for limit in limits for step in (-1, 0, 1)})

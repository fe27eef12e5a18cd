"""Which part of an object makes it large."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def size_of(value: Any) -> int:
    """Bytes of the value as JSON."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace"))


def largest_field(value: Any, *, path: str = "") -> tuple[str, int]:
    """Path and bytes of the field that has most of the value: the deepest one with more than half of its parent."""
    whole = size_of(value)
    if isinstance(value, Mapping):
        parts = [(f"{path}.{name}".lstrip("."), part) for name, part in value.items()]
    elif isinstance(value, list):
        parts = [(f"{path}[{_name(part, index)}]", part) for index, part in enumerate(value)]
    else:
        parts = []
    largest = max(parts, key=lambda part: size_of(part[1]), default=None)
    if largest is None or 2 * size_of(largest[1]) <= whole:
        return path, whole
    return largest_field(largest[1], path=largest[0])


def _name(item: Any, index: int) -> object:
    """The name of an item of a list, or its index."""
    return item.get("name", index) if isinstance(item, Mapping) else index

"""Reads JSON that other clients may have written. A value of an unexpected type counts as absent, and never raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, otherwise an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list; empty if the value is not a list."""
    sequence = isinstance(value, Sequence) and not isinstance(value, str)
    return [item for item in value if isinstance(item, Mapping)] if sequence else []

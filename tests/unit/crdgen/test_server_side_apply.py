"""What the schemas must not have, so that a second server-side apply of a manifest changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CRDS = Path(__file__).parents[3] / "crds"


def below(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schemas of the fields, items and values of a schema."""
    yield from schema.get("properties", {}).items()
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield name, schema[name]


def has_default(schema: dict[str, Any]) -> bool:
    return "default" in schema or any(has_default(inner) for _, inner in below(schema))


def atomic_lists_with_defaults(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    is_atomic = schema.get("type") == "array" and schema.get("x-kubernetes-list-type", "atomic") == "atomic"
    if is_atomic and has_default(schema["items"]):
        yield path
    for name, inner in below(schema):
        yield from atomic_lists_with_defaults(inner, f"{path}.{name}")


@pytest.mark.parametrize("path", sorted(CRDS.glob("epd.dev_*.yaml")), ids=lambda path: path.name)
def test_items_of_atomic_lists_have_no_defaults(path: Path) -> None:
    """The API server compares such a list before it sets defaults: each apply that leaves them out would be a write."""
    versions = yaml.safe_load(path.read_text())["spec"]["versions"]
    assert versions
    for version in versions:
        assert list(atomic_lists_with_defaults(version["schema"]["openAPIV3Schema"]["properties"]["spec"])) == []

"""Does a live child still match what was planned? Then nothing is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from epd_operator.plan.quantity import parse

PLAN_HASH_ANNOTATION = "epd.dev/plan-hash"
"""Hash of the child as planned: tells that a field was dropped from the plan, which the live object cannot show."""


def with_plan_hash(child: dict[str, Any]) -> dict[str, Any]:
    """The child with the hash of its own plan among its annotations."""
    text = json.dumps(child, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    metadata = child["metadata"]
    annotations = {**metadata.get("annotations", {}), PLAN_HASH_ANNOTATION: digest}
    return {**child, "metadata": {**metadata, "annotations": annotations}}


def matches(planned: Any, live: Any) -> bool:
    """Whether the live object holds everything that was planned; what the server added does not matter."""
    if live is None and planned in (None, "", {}, []):
        # The API server does not store empty values.
        return True
    if isinstance(planned, Mapping):
        return isinstance(live, Mapping) and all(matches(value, live.get(key)) for key, value in planned.items())
    if isinstance(planned, list):
        return isinstance(live, list) and _lists_match(planned, live)
    if planned == live:
        return True
    return isinstance(planned, str) and isinstance(live, str | int) and _same_quantity(planned, str(live))


def _lists_match(planned: list[Any], live: list[Any]) -> bool:
    """Lists of named objects merge by name, as server-side apply does; all others belong to us as a whole."""
    if planned and all(isinstance(item, Mapping) and "name" in item for item in planned):
        named = {item.get("name"): item for item in live if isinstance(item, Mapping)}
        return all(matches(item, named.get(item["name"])) for item in planned)
    return len(planned) == len(live) and all(matches(p, v) for p, v in zip(planned, live, strict=True))


def _same_quantity(planned: str, live: str) -> bool:
    """The API server rewrites quantities in canonical form: 1024Mi becomes 1Gi."""
    value = parse(planned)
    return value is not None and value == parse(live)

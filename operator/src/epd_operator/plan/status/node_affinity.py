"""Required node affinity, by the rules of https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epd_operator.api.untyped import items
from epd_operator.objects.nodes import Node


def matches_affinity(node: Node, terms: Sequence[Mapping[str, Any]] | None) -> bool:
    """Whether one of the terms matches the node; without terms every node matches."""
    return terms is None or any(_matches_term(node, term) for term in terms)


def _matches_term(node: Node, term: Mapping[str, Any]) -> bool:
    expressions, fields = items(term.get("matchExpressions")), items(term.get("matchFields"))
    if not expressions and not fields:
        return False  # An empty term matches no node.
    by_label = all(_matches(e, node.labels.get(str(e.get("key")))) for e in expressions)
    # The only field that Kubernetes supports is metadata.name.
    return by_label and all(_matches(e, node.name) for e in fields)


def _matches(expression: Mapping[str, Any], found: str | None) -> bool:
    values = expression.get("values")
    values = values if isinstance(values, list) else []
    operator = str(expression.get("operator"))
    if operator in ("In", "NotIn"):
        return (found in values) == (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (found is not None) == (operator == "Exists")
    if operator in ("Gt", "Lt"):
        mine, limit = _number(found), _number(values[0] if values else None)
        return mine is not None and limit is not None and (mine > limit if operator == "Gt" else mine < limit)
    return True  # Of an operator that is not known here, nothing is claimed.


def _number(value: Any) -> int | None:
    text = str(value)
    return (
        int(text) if text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) < 20 else None
    )

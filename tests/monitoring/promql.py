"""Metrics and labels that PromQL expressions use, from the syntax trees of a Prometheus server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from monitoring.pages import NAMES, recorded
from monitoring.prometheus import Prometheus

Node = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Selector:
    """A metric, and the labels that the expression matches on, groups by or joins on."""

    metric: str
    labels: frozenset[str]


def selectors(server: Prometheus, expr: str) -> list[Selector]:
    """All selectors of an expression."""
    return list(_selectors(server.api("parse_query", query=expr), needed=frozenset()))


def matched_values(server: Prometheus, expr: str) -> Iterator[tuple[str, str, str]]:
    """Metric, label and value of every matcher of the expression; one item for each alternative of a pattern."""
    for node in _nodes(server.api("parse_query", query=expr)):
        for matcher in node.get("matchers", ()):
            if matcher["name"] != "__name__":
                for value in matcher["value"].split("|"):
                    yield node["name"], matcher["name"], value


def _nodes(tree: Any) -> Iterator[Node]:
    if isinstance(tree, dict):
        yield tree
    children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for child in children:
        yield from _nodes(child)


def exported_labels(server: Prometheus, metric: str) -> frozenset[str]:
    """Labels of all series of a metric; empty if there is no such metric."""
    labels = {label for series in server.api("series", **{"match[]": metric}) for label in series}
    # Prometheus drops empty labels, such as the type of an error where there was none.
    return frozenset(labels | _recorded_labels().get(metric, frozenset())) if labels else frozenset()


@cache
def _recorded_labels() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in NAMES:
        for family in text_string_to_metric_families(recorded(name, "busy").decode()):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def _selectors(node: Node | None, *, needed: frozenset[str]) -> Iterator[Selector]:
    if node is None:
        return
    kind = node["type"]
    if kind in ("vectorSelector", "matrixSelector"):
        matchers = {matcher["name"]: matcher["value"] for matcher in node["matchers"]}
        name = node["name"] or matchers["__name__"]
        yield Selector(metric=name, labels=(needed | matchers.keys()) - {"__name__"})
        return
    if kind == "aggregation":
        # Labels that an outer aggregation needs must be kept by this one.
        grouping = frozenset(node["grouping"])
        yield from _selectors(node["expr"], needed=grouping)
        return
    if kind == "binaryExpr":
        yield from _operands(node, needed=needed)
        return
    if kind == "call" and node["func"]["name"] == "histogram_quantile":
        needed |= {"le"}
    for child in (*node.get("args", ()), node.get("expr")):
        yield from _selectors(child, needed=needed)


def _operands(node: Node, *, needed: frozenset[str]) -> Iterator[Selector]:
    matching = node.get("matching") or {}
    joined = frozenset(matching.get("labels") or ()) if matching.get("on") else frozenset()
    carried = frozenset(matching.get("include") or ())
    many, one = ("lhs", "rhs") if matching.get("card") != "one-to-many" else ("rhs", "lhs")
    own = needed - carried if matching.get("card") in ("many-to-one", "one-to-many") else needed
    yield from _selectors(node[many], needed=own | joined)
    yield from _selectors(node[one], needed=joined | carried)

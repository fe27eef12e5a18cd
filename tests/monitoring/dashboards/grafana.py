"""Grafana dashboards from a short description of their panels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WIDTH = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GREEN, AMBER, RED = "green", "orange", "red"


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query, and the legend of its series, such as ``{{stage}}``."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel.

    Attributes:
        kind: timeseries, stat or table.
        unit: a unit of Grafana.
        stack: none, normal or percent.
        width: of 24 columns.
        good: thresholds of a stat: the colour from each number upwards.
        text: what a stat shows of its series: auto, name or value_and_name.
        hidden: columns of a table that are not shown.
        columns: names for columns of a table.
    """

    title: str
    description: str
    queries: Sequence[Query]
    kind: str = "timeseries"
    unit: str = "short"
    stack: str = "none"
    width: int = 8
    height: int = 8
    good: Sequence[tuple[str, float | None]] = ((GREEN, None),)
    text: str = "auto"
    hidden: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)

    def render(self, *, number: int, x: int, y: int) -> dict[str, Any]:
        """The panel as JSON, at its position."""
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "targets": [self._target(place, query) for place, query in enumerate(self.queries)],
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            **self._options(),
        }

    def _target(self, place: int, query: Query) -> dict[str, Any]:
        target = {
            "refId": chr(ord("A") + place),
            "datasource": DATASOURCE,
            "expr": query.expr,
            "legendFormat": query.legend or "__auto",
        }
        if self.kind == "timeseries":
            return {**target, "range": True}
        return {**target, "instant": True, "range": False, "format": "table" if self.kind == "table" else "time_series"}

    def _defaults(self) -> dict[str, Any]:
        steps = [{"color": color, "value": value} for color, value in self.good]
        defaults: dict[str, Any] = {"unit": self.unit, "thresholds": {"mode": "absolute", "steps": steps}}
        if self.kind == "timeseries":
            stacked = self.stack != "none"
            defaults["min"] = 0
            defaults["custom"] = {
                "lineWidth": 1,
                "fillOpacity": 40 if stacked else 5,
                "showPoints": "never",
                "spanNulls": False,
                "stacking": {"mode": self.stack, "group": "A"},
            }
        return defaults

    def _options(self) -> dict[str, Any]:
        if self.kind == "timeseries":
            legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
            return {"options": {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}}
        if self.kind == "stat":
            reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
            text = {"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "textMode": self.text}
            return {"options": {**text, "reduceOptions": reduce, "orientation": "auto"}}
        hidden = dict.fromkeys(("Time", *self.hidden), True)
        organize = {"excludeByName": hidden, "renameByName": dict(self.columns)}
        transformations = [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}]
        return {"options": {"showHeader": True, "cellHeight": "sm"}, "transformations": transformations}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A heading and the panels below it, placed from left to right."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A selector at the top of the dashboard with the values of a label."""

    name: str
    metric: str
    several: bool = False

    def render(self) -> dict[str, Any]:
        """The variable as JSON."""
        query = f"label_values({self.metric}, {self.name})"
        every = {"includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}}
        return {
            "type": "query",
            "name": self.name,
            "label": self.name,
            "datasource": DATASOURCE,
            "definition": query,
            "query": {"query": query, "refId": self.name},
            "refresh": 2,
            "sort": 1,
            "multi": self.several,
            **(every if self.several else {"includeAll": False}),
        }


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A dashboard."""

    uid: str
    title: str
    description: str
    variables: Sequence[Variable]
    rows: Sequence[Row]
    links: Sequence[tuple[str, str]] = ()

    def render(self) -> dict[str, Any]:
        """The dashboard as JSON, as Grafana imports it."""
        source = {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus"}
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["epd-operator"],
            "schemaVersion": 39,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "",
            "links": [
                {"type": "link", "title": title, "url": url, "keepTime": True, "includeVars": True}
                for title, url in self.links
            ],
            "templating": {"list": [source, *(variable.render() for variable in self.variables)]},
            "panels": list(self._panels()),
        }

    def _panels(self) -> Iterator[dict[str, Any]]:
        number = y = 0
        for row in self.rows:
            number += 1
            yield {
                "id": number,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
            }
            y += 1
            x = tallest = 0
            for panel in row.panels:
                if x + panel.width > WIDTH:
                    x, y, tallest = 0, y + tallest, 0
                number += 1
                yield panel.render(number=number, x=x, y=y)
                x, tallest = x + panel.width, max(tallest, panel.height)
            y += tallest

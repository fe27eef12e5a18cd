"""The dashboards of the chart, against series of real pages in a real Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from monitoring.charted import of_kind
from monitoring.dashboards.__main__ import DASHBOARDS, FOLDER, text
from monitoring.dashboards.fleet import NEED_ACTION
from monitoring.prometheus import Prometheus
from monitoring.promql import exported_labels, selectors
from support.fixtures import ROOT

CHOICES = {
    "fleet.json": [{"namespace": ".*"}],
    "deployment.json": [
        {"namespace": "shop", "deployment": "qwen"},
        {"namespace": "shop", "deployment": "duo"},
        {"namespace": "lab", "deployment": "solo"},
    ],
}


def panels(name: str) -> Iterator[dict[str, Any]]:
    for panel in DASHBOARDS[name].render()["panels"]:
        if panel["type"] != "row":
            yield panel


def queries() -> Iterator[Any]:
    """Every query of every panel with every choice, one parameter each."""
    for name, choices in CHOICES.items():
        for choice in choices:
            for panel in panels(name):
                for target in panel["targets"]:
                    identifier = "-".join((*choice.values(), panel["title"], target["legendFormat"]))
                    yield pytest.param(_filled(target["expr"], choice), choice, id=identifier)


def _filled(expr: str, choice: dict[str, str]) -> str:
    for name, value in {"__rate_interval": "5m", **choice}.items():
        expr = expr.replace(f"${name}", value)
    assert "$" not in expr
    return expr


QUERIES = list(queries())


def _missing_by_design(expr: str, choice: dict[str, str]) -> bool:
    """Whether the query is about encoders, which the deployment does not have."""
    return choice.get("deployment") == "solo" and ('"encode"' in expr or "agent_" in expr)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_files_are_generated_from_their_source(name: str) -> None:
    assert (FOLDER / name).read_text() == text(DASHBOARDS[name]), "run: make dashboards"


def test_the_fleet_names_the_reasons_of_decisions_for_which_an_alert_exists() -> None:
    rules = (ROOT / "charts/epd-operator/rules/scaling.yaml").read_text()
    alerted = {reason for found in re.findall(r'reason=~?"([^"]+)"', rules) for reason in found.split("|")}
    assert alerted == set(NEED_ACTION)


def test_there_are_no_other_files() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(DASHBOARDS)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_panel_has_a_unit_and_a_description(name: str) -> None:
    shown = list(panels(name))
    assert shown
    for panel in shown:
        assert len(panel["description"].split()) >= 3, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
    titles = [panel["title"] for panel in shown]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_no_panel_overlaps_another(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARDS[name].render()["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize(("expr", "choice"), QUERIES)
def test_every_query_names_metrics_and_labels_that_are_exported(
    prometheus: Prometheus, expr: str, choice: dict[str, str]
) -> None:
    found = selectors(prometheus, expr)
    assert found
    for selector in found:
        labels = exported_labels(prometheus, selector.metric)
        assert labels, f"{selector.metric} is not exported"
        assert selector.labels <= labels, f"{selector.metric} has no {sorted(selector.labels - labels)}"


@pytest.mark.parametrize(("expr", "choice"), QUERIES)
def test_every_query_shows_something(prometheus: Prometheus, expr: str, choice: dict[str, str]) -> None:
    if _missing_by_design(expr, choice):
        assert prometheus.values(expr) == []
    else:
        assert prometheus.values(expr), expr


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_variable_offers_the_values_of_the_fleet(prometheus: Prometheus, name: str) -> None:
    offered = {}
    for variable in DASHBOARDS[name].render()["templating"]["list"]:
        if variable["type"] == "query":
            query = _filled(variable["query"]["query"], CHOICES[name][0])
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
            assert match, query
            offered[variable["name"]] = prometheus.api(f"label/{match[2]}/values", **{"match[]": match[1]})
    assert offered["namespace"] == ["lab", "shop"]
    if "deployment" in offered:
        assert offered["deployment"] == ["duo", "qwen"]


def test_the_chart_renders_each_dashboard_unchanged(rendered: list[dict[str, Any]]) -> None:
    maps = [
        document for document in of_kind(rendered, "ConfigMap") if "grafana_dashboard" in document["metadata"]["labels"]
    ]
    charted = {key.removeprefix("epd-"): json.loads(value) for found in maps for key, value in found["data"].items()}
    assert charted == {name: dashboard.render() for name, dashboard in DASHBOARDS.items()}

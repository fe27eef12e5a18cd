"""Alerts and recording rules: valid, about metrics that exist, tested, and explained."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring.charted import of_kind, rule_files, rules
from monitoring.programs import promtool
from monitoring.prometheus import Prometheus
from monitoring.promql import exported_labels, selectors

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
GUIDE = ROOT / "docs" / "monitoring.md"
CASES = sorted((Path(__file__).parent / "alerts").glob("*.yaml"))
RULES = rules()
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
CHARTED = {"epd:objective_time_to_first_token_seconds", "epd:objective_inter_token_latency_seconds"}
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]

each_alert = pytest.mark.parametrize("name", ALERTS)


def test_promtool_accepts_the_rules() -> None:
    for path in rule_files():
        done = promtool("check", "rules", "--lint=all", "--lint-fatal", path)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_only_then(path: Path) -> None:
    done = promtool("test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


def checks_of(name: str) -> list[dict[str, Any]]:
    """The samples of an alert that the cases expect."""
    tests = [test for path in CASES for test in yaml.safe_load(path.read_text())["tests"]]
    wanted = f'ALERTS{{alertname="{name}", alertstate="firing"}}'
    return [check for test in tests for check in test["promql_expr_test"] if check["expr"] == wanted]


@each_alert
def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(name: str) -> None:
    assert {bool(check["exp_samples"]) for check in checks_of(name)} == {True, False}


@each_alert
def test_each_alert_has_the_labels_that_its_annotations_use(name: str) -> None:
    fired = " ".join(sample["labels"] for check in checks_of(name) for sample in check["exp_samples"])
    text = " ".join(ALERTS[name]["annotations"].values())
    named = set(re.findall(r"\$labels\.(\w+)", text))
    assert named <= set(re.findall(r"(\w+)=", fired))


@each_alert
def test_each_alert_has_a_severity_and_a_description(name: str) -> None:
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert alert["for"]
    assert alert["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert "$value" not in alert["annotations"]["summary"]


@each_alert
def test_each_alert_has_a_runbook_with_all_its_sections(name: str) -> None:
    page = RUNBOOKS / f"{name}.md"
    assert ALERTS[name]["annotations"]["runbook_url"].endswith(f"/docs/runbooks/{page.name}")
    title, *rest = re.findall(r"^(#+) +(.+)$", page.read_text(), re.MULTILINE)
    assert title == ("#", name)
    assert [text for level, text in rest if level == "##"] == SECTIONS
    assert re.search(r"^```\n.*(kubectl|epd)", page.read_text(), re.MULTILINE), "no command to diagnose with"


def test_there_are_no_other_runbooks() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {*ALERTS, "index"}


def test_the_index_of_runbooks_and_the_guide_list_all_alerts() -> None:
    index = (RUNBOOKS / "index.md").read_text()
    assert sorted(re.findall(r"\]\((EPD\w+)\.md\)", index)) == sorted(ALERTS)
    rows = re.findall(r"^\| \[(\w+)\]\(runbooks/\1\.md\) \| (\w+) \|.* for (\w+) \|$", GUIDE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted((name, rule["labels"]["severity"], rule["for"]) for name, rule in ALERTS.items())


@each_alert
def test_the_index_of_runbooks_and_the_guide_have_the_summary_of_the_alert(name: str) -> None:
    summary = ALERTS[name]["annotations"]["summary"].removesuffix(".")
    assert f"- [{name}]({name}.md): {summary}.\n" in (RUNBOOKS / "index.md").read_text()
    assert f" | {summary}, for {ALERTS[name]['for']} |\n" in GUIDE.read_text()


def test_links_in_runbooks_are_valid() -> None:
    broken = []
    for page in RUNBOOKS.glob("*.md"):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if re.match(r"[a-z]+:", link):
                continue
            headings = re.findall(r"^#+ +(.+?) *$", target.read_text(), re.MULTILINE) if target.is_file() else []
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            if not target.is_file() or (anchor and anchor not in anchors):
                broken.append(f"{page.name}: {link}")
    assert broken == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_each_rule_names_metrics_and_labels_that_are_exported(prometheus: Prometheus, rule: dict[str, Any]) -> None:
    found = selectors(prometheus, rule["expr"])
    assert found
    for selector in found:
        labels = exported_labels(prometheus, selector.metric)
        assert labels, f"{selector.metric} is not exported"
        assert selector.labels <= labels, f"{selector.metric} has no {sorted(selector.labels - labels)}"


def test_prometheus_evaluates_each_rule_without_an_error(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.api("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == {*ALERTS, *RECORDED, *CHARTED}
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}


def test_no_alert_is_pending_or_firing_without_a_problem(prometheus: Prometheus) -> None:
    assert prometheus.api("alerts")["alerts"] == []


def test_the_chart_keeps_the_rules_and_can_point_to_other_runbooks(rendered: list[dict[str, Any]]) -> None:
    (document,) = of_kind(rendered, "PrometheusRule")
    charted = [rule for group in document["spec"]["groups"] for rule in group["rules"]]
    assert [rule for rule in charted if rule.get("record") not in CHARTED] == RULES

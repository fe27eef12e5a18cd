"""docs/events.md lists every reason that an Event can have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epd_operator.plan.status.reasons import EventType, Reason, Section
from epd_operator.plan.status.status_events import Action, EventReason
from epd_operator.scaling.model import ScalingReason

DOCS = Path(__file__).resolve().parents[3] / "docs"
ROW = re.compile(r"^\| (.+?) \| (Normal|Warning) \| .+ \| (\w+) \|$", re.MULTILINE)


def rows() -> list[tuple[set[str], str, str]]:
    """Reasons, type and action of each row of the table. A row may name a section of conditions.md."""
    found = ROW.findall((DOCS / "events.md").read_text())
    return [(_reasons_of(cell), kind, action) for cell, kind, action in found]


def _reasons_of(cell: str) -> set[str]:
    sections = [headings(title) for title in re.findall(r"\[([^`\]]+)\]\(conditions\.md#", cell)]
    named = set(re.findall(r"`(\w+)`", cell))
    return set().union(*sections) - named if sections else named


def reasons(kind: str) -> set[str]:
    return {reason for row, row_kind, _ in rows() for reason in row if row_kind == kind}


def headings(title: str) -> set[str]:
    """Reasons below a heading of conditions.md."""
    text = (DOCS / "conditions.md").read_text()
    (part,) = re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"^### (\w+)$", part, re.MULTILINE))


def test_warnings_are_the_problems_of_pods_and_the_reasons_that_need_action() -> None:
    assert reasons("Warning") == headings("Pods have a problem") | headings("A person has to act")


@pytest.mark.parametrize("section", Section)
def test_each_reason_is_explained_in_the_section_that_the_registry_names(section: Section) -> None:
    assert headings(section) == {str(reason) for reason in Reason if reason.traits.section is section}


def test_a_stage_reports_every_problem_that_its_pods_can_have_as_a_warning() -> None:
    warned = {str(reason) for reason in Reason if reason.traits.event is EventType.WARNING}
    assert warned == headings("Pods have a problem") - {str(Reason.NO_READY_PODS)}


@pytest.mark.parametrize("event", EventType)
def test_events_of_stages_have_the_type_in_the_table(event: EventType) -> None:
    recorded = {str(reason) for reason in Reason if reason.traits.event is event}
    assert recorded
    assert recorded <= reasons(event)


def test_every_reason_that_only_events_have_is_in_the_table() -> None:
    assert reasons("Normal") - {str(reason) for reason in Reason} == {str(reason) for reason in EventReason}


def test_every_action_is_in_the_table() -> None:
    assert {action for _, _, action in rows()} == {str(action) for action in Action}


@pytest.mark.parametrize("reason", ScalingReason)
def test_every_reason_of_a_scaling_decision_has_a_paragraph(reason: ScalingReason) -> None:
    assert f"\n### {reason}\n" in (DOCS / "scaling-decisions.md").read_text()

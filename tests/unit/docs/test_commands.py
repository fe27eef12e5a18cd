"""Commands in the documentation are safe and show what the text says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "charts/epd-operator/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KEEPS_VALUES = re.compile(r"--reset-then-reuse-values|(-f|--values)[ =]")
STAGE_OF_ONE_TOPOLOGY = re.compile(r"app\.kubernetes\.io/component=(pd|group|worker|encoder)\b")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def commands(page: Path) -> list[str]:
    """The lines of a page's code blocks; lines that end with a backslash are joined with the next."""
    return [line for block in FENCE.findall(page.read_text()) for line in block.replace("\\\n", " ").splitlines()]


@every_page
def test_an_upgrade_keeps_the_values_of_the_release(page: Path) -> None:
    assert [c for c in commands(page) if "helm upgrade " in c and not KEEPS_VALUES.search(c)] == []


@every_page
def test_events_are_not_sorted_by_a_time_that_events_of_the_operator_lack(page: Path) -> None:
    assert [c for c in commands(page) if "lastTimestamp" in c] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs/runbooks").glob("*.md")), ids=lambda page: page.name)
def test_commands_of_a_runbook_select_pods_of_every_topology(page: Path) -> None:
    assert [c for c in commands(page) if STAGE_OF_ONE_TOPOLOGY.search(c)] == []


def test_commands_are_found_in_the_pages() -> None:
    found = [command for page in PAGES for command in commands(page)]
    assert any("helm upgrade " in c for c in found)
    assert any("app.kubernetes.io/component in (" in c for c in found)

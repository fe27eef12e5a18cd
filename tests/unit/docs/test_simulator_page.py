"""The page on the calibration of the simulator lists the same figures as the tests."""

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
FIGURES = yaml.safe_load((ROOT / "tests/published/figures.yaml").read_text())["figures"]


def row(figure: dict[str, object]) -> str:
    """A figure as a row of the table."""
    value = f"{figure['value']:g} {figure['unit']}" if "value" in figure else "finding"
    return f"| {figure['name']} | {value} | {figure['source']} | {figure['role']} |"


def test_the_page_lists_each_published_figure_with_its_role():
    page = (ROOT / "docs/simulator-calibration.md").read_text()
    table = page.partition("|---|---|---|---|\n")[2].partition("\n\n")[0]

    assert table.splitlines() == [row(figure) for figure in FIGURES]


def test_each_figure_either_calibrates_or_is_held_out():
    assert {figure["role"] for figure in FIGURES} == {"calibrates", "held out"}

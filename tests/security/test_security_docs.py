"""docs/security.md and docs/threat-model.md: named tests exist, and the tables of rights are those of the chart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import rights
from support.helm import Helm, binary

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text()
THREATS = (ROOT / "docs" / "threat-model.md").read_text()
TESTS = "\n".join(path.read_text() for folder in ("tests", "e2e/tests") for path in (ROOT / folder).rglob("test_*.py"))


def test_every_test_that_is_named_exists() -> None:
    text = TEXT + THREATS
    names = set(re.findall(r"`(test_\w+)`", text))
    assert len(names) > 15
    assert [name for name in sorted(names) if not re.search(rf"def {name}\(", TESTS)] == []
    paths = set(re.findall(r"`(tests/[\w/]+\.py)`", text))
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def documented(title: str) -> set[str]:
    """Grants in the table after a marker, as text of `rights.Grant`."""
    table = TEXT.split(f"<!-- {title} -->\n")[1].split("\n\n")[0]
    found = set()
    for row in table.splitlines()[2:]:
        verbs, resources, _ = (cell.strip() for cell in row.strip("|").split("|", 2))
        name = match[1] if (match := re.search(r"named `([^`]+)`", resources)) else ""
        for resource in re.findall(r"`([^`]+)`", resources.split(" named ")[0]):
            group, separator, rest = resource.partition("/")
            group, rest = (
                (group, rest) if (separator and "." in group) or group in ("apps", "policy") else ("", resource)
            )
            for verb in verbs.split(", "):
                found.add(str(rights.Grant(role="", verb=verb, group=group, resource=rest, name=name)))
    return found


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Grants of the chart by role."""
    chart = Helm(program=binary("helm"), major=3, home=tmp_path_factory.mktemp("helm")).template()
    roles = [o for o in chart if o["kind"] in ("Role", "ClusterRole")]
    return {role["metadata"]["name"]: {str(g) for g in rights.of_rules(role["rules"], role="")} for role in roles}


TABLES = {
    "rights of the operator": "epd-operator",
    "rights to read nodes": "epd-operator.epd-system.node-check",
    "rights for leader election": "epd-operator-leader-election",
    "rights of worker pods": "epd-worker-discovery",
}


@pytest.mark.parametrize("title", TABLES)
def test_the_tables_of_rights_are_those_of_the_chart(granted: dict[str, set[str]], title: str) -> None:
    assert sorted(documented(title)) == sorted(granted[TABLES[title]])
    assert set(granted) == set(TABLES.values())

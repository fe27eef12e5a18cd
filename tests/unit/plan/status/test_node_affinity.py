"""Terms of required node affinity."""

from __future__ import annotations

from typing import Any

import pytest

from epd_operator.objects.nodes import Node
from epd_operator.plan.status.node_affinity import matches_affinity

NODE = Node(name="node-1", labels={"zone": "a", "cores": "64"})
CASES: list[tuple[str, str, Any, bool]] = [
    ("zone", "In", ["a", "b"], True),
    ("zone", "In", ["b"], False),
    ("rack", "In", ["r"], False),
    ("zone", "NotIn", ["a"], False),
    ("rack", "NotIn", ["r"], True),
    ("zone", "Exists", None, True),
    ("rack", "Exists", None, False),
    ("rack", "DoesNotExist", None, True),
    ("cores", "Gt", ["63"], True),
    ("cores", "Gt", ["64"], False),
    ("cores", "Lt", ["65"], True),
    ("zone", "Lt", ["65"], False),
    ("cores", "Gt", "63", False),
    ("zone", "Unheard", ["x"], True),
]


@pytest.mark.parametrize(("key", "operator", "values", "matches"), CASES)
def test_expressions_match_as_in_the_scheduler(key: str, operator: str, values: Any, matches: bool) -> None:
    expression = {"key": key, "operator": operator, "values": values}
    assert matches_affinity(NODE, [{"matchExpressions": [expression]}]) == matches


def test_one_term_must_match_in_all_its_parts_and_an_empty_one_matches_nothing() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["node-2"]}
    assert not matches_affinity(NODE, [{"matchExpressions": [zone], "matchFields": [name]}])
    assert matches_affinity(NODE, [{"matchFields": [name]}, {"matchExpressions": [zone]}])
    assert not matches_affinity(NODE, [{}])
    assert not matches_affinity(NODE, [])
    assert matches_affinity(NODE, None)

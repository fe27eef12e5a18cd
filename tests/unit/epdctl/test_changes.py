"""The fields in which two specs differ, and what of them is shown."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epdctl.rollout.changes import changes_between
from epdctl.rollout.redacted import redacted

SECRET = "hunter2"


def shown(before: Any, after: Any) -> list[str]:
    return list(map(str, changes_between(before, after)))


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ["a.b: 1 -> 2"]),
        ({"a": {}}, {"a": {"b": True}}, ["a.b: (not set) -> true"]),
        ({}, {"worker": {"pool": "p"}}, ["worker: added"]),
        ({"worker": {"pool": "p"}}, {}, ["worker: removed"]),
        ({"pools": [{"name": "a"}]}, {"pools": [{"name": "a", "n": 2}]}, ["pools[a].n: (not set) -> 2"]),
        ({"pools": [{"name": "a"}, {"name": "b"}]}, {"pools": [{"name": "b"}]}, ["pools[a]: removed"]),
        ({"env": [{"name": "A"}, {"name": "B"}]}, {"env": [{"name": "B"}, {"name": "A"}]}, ["env: order changed"]),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "2"}]}, ["env[A]: changed"]),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, ["tolerations: changed"]),
        ({"a": []}, {}, ["a: changed"]),
        ({"a": 3}, {"a": {"b": 3}}, ["a: changed"]),
    ],
)
def test_a_change_is_shown_with_its_path(before: Any, after: Any, changes: list[str]) -> None:
    assert shown(before, after) == changes


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (["--a=1", "--b=2", "--c"], ["--a=1", "--b=3", "--c"], "--b=2 -> --b=3"),
        (["--a", "1", "--c"], ["--a", "2", "--c"], "--a 1 -> --a 2"),
        (["--a"], ["--a", "--b"], "(none) -> --b"),
        (["--a", "--a"], ["--a"], "--a -> (none)"),
        ([f"--api-key={SECRET}"], ["--api-key=other"], "[not shown] -> [not shown]"),
        (["--api-key", SECRET, "--a"], ["--api-key", "x", "--b"], "--a -> --b"),
        ([], [f"--api-key={SECRET}"], "(none) -> --api-key=[not shown]"),
    ],
)
def test_arguments_are_shown_from_the_first_to_the_last_that_differ(
    before: list[str], after: list[str], change: str
) -> None:
    assert shown({"args": before}, {"args": after}) == [f"args: {change}"]


def test_values_of_variables_and_secret_arguments_are_replaced_at_any_place() -> None:
    environment = [{"name": "A", "value": SECRET}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s"}}}]
    spec = {"worker": {"podTemplate": {"env": environment, "sidecars": [{"args": ["--token", SECRET]}]}}}

    template = redacted(spec)["worker"]["podTemplate"]

    assert template["env"] == [{"name": "A", "value": "[not shown]"}, environment[1]]
    assert template["sidecars"] == [{"args": ["--token", "[not shown]"]}]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["env", "args", "name", "value", "a"]), inner, max_size=4)
    ),
)


@given(_json, _json)
def test_two_values_of_any_kind_have_changes_exactly_if_they_differ(before: Any, after: Any) -> None:
    redacted(before)
    assert bool(changes_between(before, after)) == (before != after)

"""Reading pods whose metadata and status may have any content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.api.untyped import items, mapping
from epd_operator.objects.pods import OBJECT_NAME, has_ended, is_live, is_ready, is_terminating, name_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("name", "deletionTimestamp", "phase", "conditions", "type", "status")
OBJECTS = st.dictionaries(st.sampled_from(FIELDS), VALUES | st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES)))
PODS = st.dictionaries(st.sampled_from(("metadata", "status")), VALUES | OBJECTS)


def pod(*, conditions: Any = (), phase: Any = "Running", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", **metadata}, "status": {"phase": phase, "conditions": conditions}}


@given(PODS)
def test_every_reader_accepts_any_content(found: dict[str, Any]) -> None:
    name = name_of(found)
    assert name == "" or OBJECT_NAME.fullmatch(name)
    assert {type(read(found)) for read in (is_ready, is_terminating, has_ended, is_live)} == {bool}


@given(VALUES)
def test_only_a_mapping_is_read_as_a_mapping(value: Any) -> None:
    assert mapping(value) == (value if isinstance(value, dict) else {})


@given(VALUES)
def test_only_the_mappings_of_a_list_are_its_items(value: Any) -> None:
    found = items(value)
    assert all(isinstance(item, Mapping) for item in found)
    assert isinstance(value, list) or found == []


def test_items_keep_their_order_and_others_are_left_out() -> None:
    assert items([{"a": 1}, None, "b", {}, [{"c": 1}], {"d": 1}]) == [{"a": 1}, {}, {"d": 1}]
    assert items("text") == items(b"bytes") == items({"a": {}}) == items([]) == []


@pytest.mark.parametrize(
    "conditions",
    [
        [],
        None,
        "Ready",
        {"type": "Ready", "status": "True"},
        [None, "Ready"],
        [{}],
        [{"type": "Ready"}],
        [{"type": "Ready", "status": "False"}],
        [{"type": "Ready", "status": "Unknown"}],
        [{"type": "Ready", "status": True}],
        [{"type": "ready", "status": "True"}],
        [{"type": ["Ready"], "status": "True"}],
        [{"type": "ContainersReady", "status": "True"}],
    ],
)
def test_a_pod_without_a_true_ready_condition_is_not_ready(conditions: Any) -> None:
    assert not is_ready(pod(conditions=conditions))


def test_the_ready_condition_is_found_among_other_values() -> None:
    assert is_ready(pod(conditions=[None, {"type": "Initialized"}, {"type": "Ready", "status": "True"}]))


def test_a_pod_with_a_deletion_timestamp_is_terminating_and_not_live() -> None:
    found = pod(deletionTimestamp="2026-01-01T00:00:00Z")
    assert is_terminating(found)
    assert not is_live(found)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_in_an_end_phase_has_ended_and_is_not_live(phase: str) -> None:
    assert has_ended(pod(phase=phase))
    assert not is_live(pod(phase=phase))


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", "", None, 7, ["Failed"], {"Failed": 1}])
def test_a_pod_in_any_other_phase_is_live(phase: Any) -> None:
    assert is_live(pod(phase=phase))


@pytest.mark.parametrize("name", ["p", "qwen-pd-7d9f-x2k", "a.b", "0", "a" * 253])
def test_a_valid_name_is_read(name: str) -> None:
    assert name_of(pod(name=name)) == name


@pytest.mark.parametrize("name", [None, "", 7, "a/b", "..", ".a", "a-", "P", "a b", "p\n", "é", "a" * 254, ["p"]])
def test_an_invalid_name_is_read_as_empty(name: Any) -> None:
    assert name_of(pod(name=name)) == ""

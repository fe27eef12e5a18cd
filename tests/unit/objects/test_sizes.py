"""Which field of an object is named when the object is too large."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from epd_operator.objects.sizes import largest_field, size_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_the_largest_field_is_named_with_the_name_of_its_list_item() -> None:
    env = [{"name": "SMALL", "value": "x"}, {"name": "PROMPT", "value": "x" * 1000}]
    child = {"metadata": {"name": "qwen"}, "spec": {"containers": [{"name": "main", "env": env}]}}

    path, size = largest_field(child)

    assert (path, size) == ("spec.containers[main].env[PROMPT].value", 1002)


def test_a_field_with_many_parts_of_the_same_size_is_named_itself() -> None:
    child = {"spec": {"args": ["x" * 100] * 50}, "metadata": {"name": "qwen"}}

    assert largest_field(child)[0] == "spec.args"


def test_text_that_is_no_unicode_has_a_size() -> None:
    assert size_of("\ud800") == 3


@given(value=JSON)
def test_every_value_has_a_largest_field_that_is_not_larger_than_the_whole(value: object) -> None:
    _, size = largest_field(value)

    assert 0 < size <= len(json.dumps(value, separators=(",", ":")))

"""Text from pods and responses in messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.objects.text import MAX_TEXT, one_line

LINE_BREAKS = ("\n", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029")
TEXTS = st.text(st.characters()) | st.lists(st.sampled_from((*LINE_BREAKS, "a", " ", "\x00", "\x1b[31m"))).map("".join)


@given(TEXTS, st.integers(1, 50))
def test_any_text_becomes_one_line_of_bounded_length(text: str, limit: int) -> None:
    line = one_line(text, limit=limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert not any(character < " " or "\x7f" <= character <= "\x9f" for character in line)


@given(TEXTS, st.integers(1, 50))
def test_a_line_is_not_changed_again(text: str, limit: int) -> None:
    line = one_line(text, limit=limit)
    assert one_line(line, limit=limit) == line


@pytest.mark.parametrize("line_break", LINE_BREAKS)
def test_a_line_break_becomes_one_space(line_break: str) -> None:
    assert one_line(f"pulling{line_break * 3}failed{line_break}") == "pulling failed"


@pytest.mark.parametrize("value", [None, "", " \n ", [], {}])
def test_missing_text_is_empty(value: object) -> None:
    assert one_line(value) == ""


@pytest.mark.parametrize(("value", "line"), [(404, "404"), (True, "True"), (["a", 1], "['a', 1]")])
def test_a_value_that_is_not_text_is_written_as_text(value: object, line: str) -> None:
    assert one_line(value) == line


def test_only_text_above_the_limit_is_cut_and_ends_with_an_ellipsis() -> None:
    assert one_line("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert one_line("x" * (MAX_TEXT + 1)) == "x" * (MAX_TEXT - 1) + "…"

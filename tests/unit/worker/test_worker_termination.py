"""The line that `kubectl describe pod` shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_worker.reaper import Exit
from epd_worker.termination import MAX_BYTES, describe_end, last_words, sanitise, write_message


@pytest.mark.parametrize(
    ("how", "last_line", "expected"),
    [
        (Exit(code=1), "boom", "process pd ended with exit code 1 after 42 s; last output: boom"),
        (Exit(code=0), "", "process pd ended with exit code 0 after 42 s; no output"),
        (Exit(signal=11), " \t", "process pd ended with signal 11 (SIGSEGV) after 42 s; no output"),
        (
            Exit(signal=9),
            "x",
            "process pd ended with signal 9 (SIGKILL) after 42 s (often: out of memory); last output: x",
        ),
        (Exit(signal=40), "x", "process pd ended with signal 40 after 42 s; last output: x"),
    ],
)
def test_the_end_is_told_in_one_line(how, last_line, expected):
    assert describe_end(name="pd", how=how, uptime=41.7, tail=[last_line]) == expected


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ([], "no output"),
        (["loading", "  ", ""], "last output: loading"),
        (["RuntimeError: out of memory"], "last output: RuntimeError: out of memory"),
        (
            ["engine.EngineDeadError: see above", "\x1b[31mERROR\x1b[0m check failed", "INFO Phase 3"],
            "last error: ERROR check failed; last output: INFO Phase 3",
        ),
        (
            ["thread 'main' panicked at src/x.rs:1", "note: run with"],
            "last error: thread 'main' panicked at src/x.rs:1;",
        ),
        (["no errors, Errors or terrors", "bye"], "last output: bye"),
    ],
)
def test_the_last_error_is_quoted_before_what_the_shutdown_said(tail, expected):
    assert last_words(tail).startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[2m2026\x1b[0m \x1b[32m INFO\x1b[0m ready", "2026 INFO ready"),
        ("\x1b]0;title\x07text", "text"),
        ("a\r\nb\x00\x07\tc", "a b c"),
        ("\u202eevil\u2028line", "evil line"),
        ("caf\u00e9 \ud800!", "café !"),
    ],
)
def test_colours_and_control_characters_go(text, expected):
    assert sanitise(text, limit=100) == expected


@given(st.text(), st.integers(min_value=3, max_value=60))
def test_any_text_becomes_one_printable_bounded_line(text, limit):
    line = sanitise(text, limit=limit)
    assert len(line.encode()) <= limit
    assert line.isprintable()


@given(st.text(min_size=500, max_size=3000), st.integers(0, 64))
def test_the_message_fits_whatever_was_said(last_line, signal):
    tail = [f"ValueError {last_line}", last_line]
    message = describe_end(name="e" * 63, how=Exit(signal=signal), uptime=1e9, tail=tail)
    assert len(message.encode()) <= MAX_BYTES
    assert message.startswith("process eee")


def test_nothing_is_created_where_there_is_no_termination_log(tmp_path):
    write_message(str(tmp_path / "none"), "text")
    assert list(tmp_path.iterdir()) == []


def test_an_older_message_is_replaced(tmp_path):
    log = tmp_path / "log"
    log.write_text("a much longer older message")
    write_message(str(log), "new\nline")
    assert log.read_text() == "new line"

"""The termination message, which `kubectl describe pod` shows."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_worker.output import Console, Line, Pump
from epd_worker.reaper import Exit
from epd_worker.termination import MAX_BYTES, describe_end, quote_output, sanitise, write_message


@pytest.mark.parametrize(
    ("how", "last_line", "expected"),
    [
        (Exit(code=1), "boom", "process pd ended with exit code 1 after 42 s; last output: boom"),
        (Exit(code=0), "", "process pd ended with exit code 0 after 42 s; no output"),
        (Exit(signal=11), " \t", "process pd ended with signal 11 (SIGSEGV) after 42 s; no output"),
        (
            Exit(signal=9),
            "x",
            "process pd ended with signal 9 (SIGKILL) after 42 s (often out of memory); last output: x",
        ),
        (Exit(signal=40), "x", "process pd ended with signal 40 after 42 s; last output: x"),
    ],
)
def test_the_end_is_described_in_one_line(how, last_line, expected):
    assert describe_end(name="pd", how=how, uptime=41.7, tail=[Line(text=last_line)]) == expected


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ([], "no output"),
        (["loading", "  ", ""], "last output: loading"),
        (["loading", "\x00 \x1b[0m"], "last output: loading"),
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
def test_the_last_error_is_quoted_before_the_last_output(tail, expected):
    assert quote_output([Line(text=text) for text in tail]).startswith(expected)


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ([("ERROR 503", 960), ("served", 9)], "last error (960 s before exit): ERROR 503; last output: served"),
        ([("served", 960.4)], "last output (960 s before exit): served"),
        ([("ERROR 503", 960), ("ERROR 503", 1)], "last output: ERROR 503"),
    ],
)
def test_old_output_is_quoted_with_its_age(tail, expected):
    assert quote_output([Line(text=text, age=age) for text, age in tail]) == expected


@pytest.fixture
def console(tmp_path) -> Iterator[Console]:
    descriptor = os.open(tmp_path / "stdout", os.O_WRONLY | os.O_CREAT)
    console = Console(descriptor)
    yield console
    console.close(timeout=30)
    os.close(descriptor)


def test_a_line_is_as_old_as_the_time_since_it_was_read(console, eventually):
    read = iter([100.0, 1000.0])
    pump = Pump(console=console, prefix="", clock=lambda: next(read))
    sink = os.dup(pump.sink)
    pump.start()
    for number, text in enumerate((b"ERROR 503\n", b"served\n"), start=1):
        os.write(sink, text)
        eventually(lambda: len(pump.tail(at=0)) >= number, "the line is read")  # noqa: B023 - called at once
    os.close(sink)
    pump.finish(timeout=30)
    assert pump.tail(at=1060.0) == [Line(text="ERROR 503", age=960.0), Line(text="served", age=60.0)]
    assert pump.tail(at=99.0)[0].age == 0


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
def test_colours_and_control_characters_are_removed(text, expected):
    assert sanitise(text, limit=100) == expected


@given(st.text(), st.integers(min_value=3, max_value=60))
def test_any_text_becomes_one_printable_bounded_line(text, limit):
    line = sanitise(text, limit=limit)
    assert len(line.encode()) <= limit
    assert line.isprintable()


@given(st.text(min_size=500, max_size=3000), st.integers(0, 64))
def test_the_message_has_a_maximum_length_for_any_output(last_line, signal):
    tail = [Line(text=f"ValueError {last_line}", age=1e9), Line(text=last_line, age=1e9)]
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

"""The termination message: the line that `kubectl describe pod` shows when a container has ended."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from epd_worker.output import Line
from epd_worker.reaper import Exit
from epd_worker.root_cause import root_cause, without_answers

MAX_BYTES = 1024
_MAX_LINE_BYTES = 400
_OLD_SECONDS = 10.0
"""Older output may have nothing to do with the end of the process, so its age is shown."""

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def sanitise(text: str, *, limit: int) -> str:
    """Return the text as one printable line of at most `limit` UTF-8 bytes, cut with an ellipsis."""
    plain = _ESCAPE.sub("", text)
    line = " ".join("".join(c if c.isprintable() else " " for c in plain).split())
    raw = line.encode(errors="replace")
    if len(raw) <= limit:
        return raw.decode()
    mark = "…"
    return raw[: limit - len(mark.encode())].decode(errors="ignore") + mark


def quote_output(tail: Sequence[Line]) -> str:
    """Quote the line with the cause and the last line of output: a program often logs its shutdown after an error."""
    # Not made printable yet: the indentation shows where a traceback ends.
    printed = [line for line in tail if sanitise(line.text, limit=_MAX_LINE_BYTES)]
    lines = without_answers([replace(line, text=_ESCAPE.sub("", line.text)) for line in printed])
    if not lines:
        return "no output"
    cause = root_cause(lines)
    if cause is None or lines[-1].text.endswith(cause.text):
        return _quote("output", cause or lines[-1])
    return f"{_quote('error', cause)}; {_quote('output', lines[-1])}"


def _quote(kind: str, line: Line) -> str:
    age = f" ({line.age:.0f} s before exit)" if line.age >= _OLD_SECONDS else ""
    return f"last {kind}{age}: {sanitise(line.text, limit=_MAX_LINE_BYTES)}"


def describe_end(*, name: str, how: Exit, uptime: float, tail: Sequence[Line]) -> str:
    """Describe which process ended, how, after how many seconds, and its last output."""
    hint = " (often out of memory)" if how.signal == 9 else ""
    text = f"process {name} ended with {how.describe()} after {uptime:.0f} s{hint}; {quote_output(tail)}"
    return sanitise(text, limit=MAX_BYTES)


def write_message(path: str, message: str) -> None:
    """Write the line to the termination log; if the file does not exist (outside of a pod), it is not created.

    Raises:
        OSError: the log exists and cannot be written.
    """
    if not Path(path).exists():
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(descriptor, sanitise(message, limit=MAX_BYTES).encode())
    finally:
        os.close(descriptor)

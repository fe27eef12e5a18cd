"""The one line that `kubectl describe pod` shows as the reason why a container ended."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from epd_worker.reaper import Exit

MAX_BYTES = 1024
_MAX_LINE_BYTES = 400
_ERROR = re.compile(r"\b(ERROR|CRITICAL|FATAL)\b|\b\w*(Error|Exception)\b|\bpanicked at\b")
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


def last_words(tail: Sequence[str]) -> str:
    """Quote the last line of output, and before it the last that tells of an error: shutdowns talk after failing."""
    lines = [line for line in (sanitise(text, limit=_MAX_LINE_BYTES) for text in tail) if line]
    if not lines:
        return "no output"
    errors = [line for line in lines if _ERROR.search(line)]
    if not errors or errors[-1] == lines[-1]:
        return f"last output: {lines[-1]}"
    return f"last error: {errors[-1]}; last output: {lines[-1]}"


def describe_end(*, name: str, how: Exit, uptime: float, tail: Sequence[str]) -> str:
    """Say which process ended, how, after how many seconds, and what it said last."""
    hint = " (often: out of memory)" if how.signal == 9 else ""
    text = f"process {name} ended with {how.describe()} after {uptime:.0f} s{hint}; {last_words(tail)}"
    return sanitise(text, limit=MAX_BYTES)


def write_message(path: str, message: str) -> None:
    """Write the line to the termination log; where there is none (not in a pod), nothing is created.

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

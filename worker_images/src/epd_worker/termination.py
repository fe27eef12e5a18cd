"""The one line that `kubectl describe pod` shows as the reason why a container ended."""

from __future__ import annotations

import os
import re
from pathlib import Path

from epd_worker.reaper import Exit

MAX_BYTES = 1024
_MAX_OUTPUT_BYTES = 600
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


def describe_end(*, name: str, how: Exit, uptime: float, last_line: str) -> str:
    """Say which process ended, how, after how many seconds, and what it said last."""
    text = f"process {name} ended with {how.describe()} after {uptime:.0f} s"
    if how.signal == 9:
        text += " (often: out of memory)"
    last = sanitise(last_line, limit=_MAX_OUTPUT_BYTES)
    return sanitise(f"{text}; last output: {last}" if last else f"{text}; no output", limit=MAX_BYTES)


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

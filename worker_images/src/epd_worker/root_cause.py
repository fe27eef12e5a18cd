"""Finds, in the last output of a process, the line that says why it failed.

The cause is seldom the last line: vLLM's engine prints its exception, then the process that started it prints another
("See root cause above"), and log lines follow. Real outputs are in tests/unit/worker/outputs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from epd_worker.output import Line

_RECENT_SECONDS = 60.0
"""An older exception was probably handled: a request failed, and the process continued."""

# Dynamo logs each answer with an error status in this way, also those to the requests of the launcher while it starts:
# "ERROR tower_http::trace::on_failure: response failed classification=Status code: 503 Service Unavailable".
_ANSWER = re.compile(r"\btower_http::trace::on_failure\b")
# "(EngineCore pid=12) ERROR 11-30 06:45:46 [core.py:1433] ", which vLLM puts before each line, also of a traceback.
_VLLM_PREFIX = re.compile(r"^\(\w[^()]*\bpid=\d+\) (?:[A-Z]+ [\d-]+ [\d:]+ \[[^\]]*\] ?)?")
_TRACEBACK = re.compile(r"^(?:[ |+]*)Traceback \(most recent call last\):")
_ANY_EXCEPTION = re.compile(r"^(?!(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b)[A-Za-z_][\w.]*(?:: .*)?$")
_NAMED_EXCEPTION = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt)(?:: .*)?$")
_PANIC = re.compile(r"\bpanicked at\b")
_FATAL = re.compile(
    r"^Fatal Python error: |^terminate called after throwing |^\s*what\(\): |\bCUDA error: |\bout of memory\b"
    r"|^\S+: error: |\bSegmentation fault\b|\bBus error\b|\b(?:CRITICAL|FATAL)\b",
)
_REFERS_TO_OTHERS = re.compile(r"\b(?:see (?:\w+ ){0,3}above|see stack trace|EngineDeadError)\b", re.IGNORECASE)
_ERROR_LINE = re.compile(r"\bERROR\b|\b\w*(?:Error|Exception)\b")
_USAGE = re.compile(r"^(?:usage: |\s+\[?-)")


def without_answers(lines: Sequence[Line]) -> list[Line]:
    """Return the lines without the log of answers to requests: it never says why a process ended."""
    return [line for line in lines if not _ANSWER.search(line.text)]


def root_cause(lines: Sequence[Line]) -> Line | None:
    """Return the line with the cause, without vLLM's prefix; None if no line looks like an error.

    The last exception or fatal line of the last minute, else the last line that reports an error. One that only refers
    to another is used only if there is no other.
    """
    plain = [replace(line, text=_VLLM_PREFIX.sub("", line.text)) for line in without_answers(lines)]
    end = plain[-1].age if plain else 0.0
    fatal = [line for line in _fatal_lines(plain) if line.age - end <= _RECENT_SECONDS]
    errors = [line for line in plain if _ERROR_LINE.search(line.text) and not _USAGE.search(line.text)]
    for found in (fatal, errors):
        direct = [line for line in found if not _REFERS_TO_OTHERS.search(line.text)]
        if direct:
            return direct[-1]
    indirect = fatal or errors
    return indirect[-1] if indirect else None


def _fatal_lines(lines: Sequence[Line]) -> list[Line]:
    found: list[Line] = []
    in_traceback = False
    for index, line in enumerate(lines):
        text = line.text.rstrip()
        if _TRACEBACK.search(text):
            in_traceback = True
        elif _PANIC.search(text):
            # Since Rust 1.73 the text of a panic is on the line after its place.
            more = f" {lines[index + 1].text}" if text.endswith(":") and index + 1 < len(lines) else ""
            found.append(replace(line, text=text + more))
        elif (in_traceback and _ANY_EXCEPTION.search(text)) or _NAMED_EXCEPTION.search(text):
            in_traceback = False
            found.append(line)
        elif _FATAL.search(text) and not _USAGE.search(text):
            found.append(line)
    return found

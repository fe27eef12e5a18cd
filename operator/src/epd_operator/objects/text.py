"""Text from other sources, made safe for messages, logs and labels."""

from __future__ import annotations

import re
from typing import Any

MAX_TEXT = 512
"""Longest text that is copied from a pod or an answer, in characters: both are untrusted."""

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def one_line(text: Any, *, limit: int = MAX_TEXT) -> str:
    """The text on one line, with at most ``limit`` characters; empty for None."""
    clean = _CONTROL_CHARACTERS.sub(" ", str(text or "")).strip()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"

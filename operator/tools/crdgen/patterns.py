"""Checks that a regular expression means the same in pydantic (Rust) and in the API server (RE2 of Go)."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(.)")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_PORTABLE_ESCAPES = frozenset("tnfr.\\/-+*?()[]{}|^$")


def pattern_problem(pattern: str) -> str | None:
    r"""Why the pattern cannot be used in the schema, or None if it can.

    Classes such as ``\s`` are Unicode in Rust and ASCII in Go. A pattern without anchors matches any part of the text.
    Neither engine supports look-around and back references.
    """
    for escaped in _ESCAPE.findall(pattern):
        if escaped not in _PORTABLE_ESCAPES:
            return f"'\\{escaped}' differs between regular expression engines: list the characters instead"
    plain = _CLASS.sub("x", pattern)
    plain = _ESCAPE.sub("x", plain)
    if "(?" in plain.replace("(?:", "("):
        return "groups that start with (? are not portable"
    if not (plain.startswith("^") and plain.endswith("$")):
        return "add anchors: ^...$"
    if "|" in _top_level(plain):
        return "put the alternatives in parentheses: otherwise the anchors apply only to the first and the last one"
    try:
        re.compile(pattern)
    except re.error as error:
        return f"not a regular expression: {error}"
    return None


def _top_level(plain: str) -> str:
    depth = 0
    kept = []
    for character in plain:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            kept.append(character)
    return "".join(kept)

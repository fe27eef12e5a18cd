"""Regular expressions that mean the same to pydantic (Rust), to the API server (Go's RE2) and to readers."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(.)")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_PORTABLE_ESCAPES = frozenset("tnfr.\\/-+*?()[]{}|^$")


def pattern_problem(pattern: str) -> str | None:
    r"""What makes a pattern unfit for the schema, or None.

    Classes such as ``\s`` are Unicode in Rust and ASCII in Go; an unanchored pattern matches anywhere inside;
    look-around and back references are unknown to both.
    """
    for escaped in _ESCAPE.findall(pattern):
        if escaped not in _PORTABLE_ESCAPES:
            return f"'\\{escaped}' differs between regular expression engines: spell the characters out"
    plain = _CLASS.sub("x", pattern)
    plain = _ESCAPE.sub("x", plain)
    if "(?" in plain.replace("(?:", "("):
        return "groups that begin with (? are not portable"
    if not (plain.startswith("^") and plain.endswith("$")):
        return "anchor it: ^...$"
    if "|" in _top_level(plain):
        return "put the alternatives in parentheses, or the anchors bind to the outer two only"
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

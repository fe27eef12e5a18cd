"""The fields in which two specs differ, for people: with values where these are short and not secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from epdctl.rollout.redacted import HIDDEN, redacted

_MISSING = object()
UNSET = "(not set)"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A field that differs.

    Attributes:
        path: path of the field; items of a list with names are in brackets.
        before: the earlier value; None if it is not shown.
        after: the later value; None if it is not shown.
        what: added, removed or changed.
    """

    path: str
    before: str | None = None
    after: str | None = None
    what: str = "changed"

    def __str__(self) -> str:
        """The change in one line."""
        if self.before is None or self.after is None:
            return f"{self.path}: {self.what}"
        return f"{self.path}: {self.before} -> {self.after}"

    def as_data(self) -> dict[str, Any]:
        """The change for programs."""
        values = {"before": self.before, "after": self.after}
        return {"path": self.path, "change": self.what, **{k: v for k, v in values.items() if v is not None}}


def changes_between(before: Any, after: Any) -> tuple[Change, ...]:
    """The fields in which two contents of records differ, in the order of their paths."""
    return tuple(_changes("", before, after))


def _changes(path: str, before: Any, after: Any) -> Iterator[Change]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            inner = f"{path}.{key}" if path else str(key)
            yield from _changes(inner, before.get(key, _MISSING), after.get(key, _MISSING))
        return
    old, new = _by_name(before), _by_name(after)
    if old is not None and new is not None:
        yield from _changes_of_items(path, old, new)
    else:
        yield _change(path, before, after)


def _changes_of_items(path: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    hidden = path.rpartition(".")[2] == "env"
    found = False
    for name in sorted({*before, *after}):
        old, new, inner = before.get(name, _MISSING), after.get(name, _MISSING), f"{path}[{name}]"
        if old != new:
            found = True
            yield from [Change(path=inner, what=_what(old, new))] if hidden else _changes(inner, old, new)
    if not found:
        yield Change(path=path, what="order changed" if before and after else "changed")


def _change(path: str, before: Any, after: Any) -> Change:
    what = _what(before, after)
    if path.rpartition(".")[2] == "args":
        old, new = (redacted({"args": [] if args is _MISSING else args})["args"] for args in (before, after))
        if isinstance(old, list) and isinstance(new, list) and old != new:
            return Change(path=path, what=what, **_different_part(old, new))
        return Change(path=path, what=what, before=HIDDEN, after=HIDDEN)
    return Change(path=path, what=what, before=_shown(before), after=_shown(after))


def _what(before: Any, after: Any) -> str:
    return "added" if before is _MISSING else "removed" if after is _MISSING else "changed"


def _different_part(before: list[Any], after: list[Any]) -> dict[str, str]:
    """The arguments from the first to the last that differ; with the flag if only the value of a flag differs."""
    shorter = min(len(before), len(after))
    start = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    parts = [before[start : len(before) - end], after[start : len(after) - end]]
    if start and any(part and not str(part[0]).startswith("-") for part in parts):
        parts = [[before[start - 1], *part] for part in parts]
    old, new = (" ".join(map(str, part)) or "(none)" for part in parts)
    return {"before": old, "after": new}


def _shown(value: Any) -> str | None:
    """A scalar as text; None for anything longer."""
    if value is _MISSING:
        return UNSET
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float | str) else None


def _by_name(value: Any) -> dict[str, Any] | None:
    """The items of a list by their names; None if they have none, or two have the same."""
    if value is _MISSING:
        return {}
    if not isinstance(value, list) or not all(isinstance(item, Mapping) and "name" in item for item in value):
        return None
    named = {str(item["name"]): item for item in value}
    return named if len(named) == len(value) else None

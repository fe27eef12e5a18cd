"""The output of ``epdctl rollout`` for people, in at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime

from epd_operator.objects.identity import revision_label
from epdctl.output import WIDTH, printable, table
from epdctl.rollout.changes import Change
from epdctl.rollout.progress import Progress
from epdctl.rollout.records import Entry

MAX_CHANGES = 8
"""Changes of one record that the list shows."""
MAX_LINES = 12
"""Lines of a message, so that a status fits on one screen."""
_PODS_WIDTH = 42
_LABEL_WIDTH = 11
_SECONDS = {"d": 86400, "h": 3600, "m": 60}


def wrapped(text: str, *, indent: str = "", first: str | None = None, limit: int = MAX_LINES) -> str:
    """Text in lines of at most `WIDTH` columns."""
    lines = textwrap.wrap(
        printable(text),
        width=WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        max_lines=limit,
        placeholder=" ...",
    )
    return "\n".join(lines) or (first or indent).rstrip()


def status_text(name: str, progress: Progress) -> str:
    """One screen: the revisions, what the rollout waits for, and its settings."""
    rows: list[Sequence[str]] = []
    for revision in progress.revisions:
        first, *more = textwrap.wrap(revision.pods, width=_PODS_WIDTH) or [""]
        rows.append((revision.name, revision.state, revision.topology or "unknown", first))
        rows += [("", "", "", line) for line in more]
    parts = [table(("REVISION", "STATE", "TOPOLOGY", "PODS READY"), rows)] if rows else [f"epd/{name} has no pods yet"]
    strategy = f"{progress.strategy}{', paused' if progress.is_paused else ''}"
    fields = (("strategy", strategy), ("waits for", progress.waits_for or "nothing: the rollout is complete"))
    parts += [_field(label, text) for label, text in fields]
    return "\n".join(parts)


def progress_lines(progress: Progress) -> tuple[str, ...]:
    """The same for a log: one paragraph for each revision and for what is missing."""
    revisions = (f"revision {r.name} ({r.state}): {r.pods or 'no pods'}" for r in progress.revisions)
    waits = [f"waits for {progress.waits_for}"] if progress.waits_for else []
    return tuple(wrapped(line, indent="  ", first="") for line in (*revisions, *waits))


def _field(label: str, text: str) -> str:
    return wrapped(text, indent=" " * _LABEL_WIDTH, first=f"{label}:".ljust(_LABEL_WIDTH))


def history_text(entries: Sequence[Entry], *, now: datetime) -> str:
    """The records with their changes, the latest last."""
    rows = [(str(e.number), age_of(e.created, now=now), revision_label(e.record.revision), _state(e)) for e in entries]
    header, *lines = table(("NUMBER", "AGE", "REVISION", "STATE"), rows).splitlines()
    parts = [header]
    for line, entry in zip(lines, entries, strict=True):
        parts += [line, *_shown_changes(entry)]
    if not any(entry.is_present for entry in entries):
        parts.append(wrapped("The present spec is not recorded yet: the operator has not accepted it, or not seen it."))
    return "\n".join(parts)


def _state(entry: Entry) -> str:
    served = "has served" if entry.has_served else "never served"
    return f"present, {served}" if entry.is_present else served


def _shown_changes(entry: Entry) -> Iterator[str]:
    changes = entry.changes or ()
    yield from change_lines(changes[:MAX_CHANGES])
    if len(changes) > MAX_CHANGES:
        more = len(changes) - MAX_CHANGES
        yield f"    {more} more, which -o yaml shows"


def change_lines(changes: Sequence[Change]) -> Iterator[str]:
    """One paragraph for each change."""
    for change in changes:
        yield wrapped(str(change), indent="      ", first="    ", limit=3)


def age_of(created: str, *, now: datetime) -> str:
    """The age as kubectl prints it, in the largest unit."""
    try:
        seconds = max(int((now - datetime.fromisoformat(created)).total_seconds()), 0)
    except (TypeError, ValueError):
        return "unknown"
    unit = next((unit for unit, length in _SECONDS.items() if seconds >= 2 * length), None)
    return f"{seconds}s" if unit is None else f"{seconds // _SECONDS[unit]}{unit}"

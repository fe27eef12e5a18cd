"""Reads samples of a metrics page in the Prometheus text format. The page may be invalid or hostile.

The parser of the official client is not used: it raises an error at the first invalid line, parses all metrics of the
page, and has no limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MAX_LINE = 16 * 1024
"""Maximum length of a line, in bytes."""
MAX_SAMPLES = 500
"""Maximum number of samples of the requested metrics; real pages have a few dozen."""
MAX_LABELS = 32
"""Maximum number of labels of a sample. With the limits above, this limits the time for parsing a page."""
MAX_VALUE = 1e15
"""Maximum value; larger values are invalid."""

_HEAD = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*[ \t]*(\{?)")
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\[\\"n])*)"[ \t]*(?:,|(?=\}))[ \t]*')
_NUMBER = re.compile(r"\+?(?:[0-9]{1,20}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?")
_TIMESTAMP = re.compile(r"-?[0-9]{1,20}")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One value of one series."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Samples:
    """The requested samples of a page.

    Attributes:
        by_name: samples of each requested metric on the page. None if one of them is invalid: malformed, not a number,
            infinite, negative, too large, or a duplicate.
    """

    by_name: Mapping[str, tuple[Sample, ...] | None] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether the page contains the metric, with valid or invalid samples."""
        return name in self.by_name

    def values(self, name: str, **labels: str) -> tuple[float, ...]:
        """Values of the series with these labels; empty if there are none, or if the metric is invalid."""
        samples = self.by_name.get(name) or ()
        return tuple(s.value for s in samples if all(s.labels.get(key) == value for key, value in labels.items()))

    def total(self, name: str, **labels: str) -> float | None:
        """Sum over the series with these labels; None if there are none, or if the metric is invalid."""
        values = self.values(name, **labels)
        return sum(values) if values else None


class Finder:
    """Finds the samples of given metrics on a page, and ignores all other lines."""

    def __init__(self, names: Iterable[str]) -> None:
        alternatives = "|".join(re.escape(name) for name in sorted(names))
        self._lines = re.compile(rf"^({alternatives})(?=[{{ \t])[^\n]*".encode(), re.MULTILINE)

    def find(self, page: bytes) -> Samples:
        """The samples. Never raises an error, even for an invalid page."""
        found: dict[str, dict[frozenset[tuple[str, str]], Sample] | None] = {}
        for count, line in enumerate(self._lines.finditer(page)):
            if count >= MAX_SAMPLES:
                return Samples(dict.fromkeys(found))
            name = line[1].decode()
            series = found.setdefault(name, {})
            if series is None:
                continue
            try:
                sample = parse_line(line[0])
            except ValueError:
                found[name] = None
                continue
            key = frozenset(sample.labels.items())
            if key in series:
                found[name] = None
            else:
                series[key] = sample
        return Samples({name: None if series is None else tuple(series.values()) for name, series in found.items()})


def parse_line(line: bytes) -> Sample:
    """Parse one line of a page.

    Raises:
        ValueError: the line is not a sample, or its value is invalid.
    """
    if len(line) > MAX_LINE:
        raise ValueError("the line is too long")
    text = line.decode()
    head = _HEAD.match(text)
    if head is None:
        raise ValueError("no name")
    labels, position = _parse_labels(text, position=head.end()) if head[1] else ({}, head.end())
    value, *timestamp = text[position:].split()
    if len(timestamp) > 1 or (timestamp and not _TIMESTAMP.fullmatch(timestamp[0])):
        raise ValueError("not a value with an optional timestamp")
    return Sample(labels=labels, value=parse_value(value))


def parse_value(text: str) -> float:
    """Parse a value.

    Raises:
        ValueError: the text is not a finite, non-negative number up to the maximum.
    """
    if not _NUMBER.fullmatch(text) or (value := float(text)) > MAX_VALUE:
        raise ValueError("not a number, or too large")
    return value


def _parse_labels(text: str, *, position: int) -> tuple[dict[str, str], int]:
    """Labels, and the position after them. Values keep their escape sequences, because they are only compared."""
    labels: dict[str, str] = {}
    while not text.startswith("}", position):
        label = _LABEL.match(text, position)
        if label is None or label[1] in labels or len(labels) >= MAX_LABELS:
            raise ValueError("invalid labels")
        labels[label[1]] = label[2]
        position = label.end()
    return labels, position + 1

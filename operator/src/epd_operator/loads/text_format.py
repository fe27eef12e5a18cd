"""Samples of a metrics page in the Prometheus text format, read with suspicion.

The official client's parser is not used: it raises on the first odd line of a page, reads series that nobody asked
for, and knows no bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MAX_LINE = 16 * 1024
"""Longest line that is read, in bytes."""
MAX_SAMPLES = 500
"""Most samples of the wanted metrics; real pages have a few dozen."""
MAX_LABELS = 32
"""Most labels of a sample. With the bounds above, this bounds the time that a page takes from other deployments."""
MAX_VALUE = 1e15
"""Largest value that is believed."""

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
    """The wanted samples of a page.

    Attributes:
        by_name: samples of each metric that the page has; None where they cannot be trusted, since one of them is
            garbage, not a number, infinite, negative, or there twice.
    """

    by_name: Mapping[str, tuple[Sample, ...] | None] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether the page speaks of the metric at all."""
        return name in self.by_name

    def values(self, name: str, **labels: str) -> tuple[float, ...]:
        """Values of the series with these labels; empty where there are none or they cannot be trusted."""
        samples = self.by_name.get(name) or ()
        return tuple(s.value for s in samples if all(s.labels.get(key) == want for key, want in labels.items()))

    def total(self, name: str, **labels: str) -> float | None:
        """The sum over the series with these labels; None where there are none or they cannot be trusted."""
        values = self.values(name, **labels)
        return sum(values) if values else None


class Finder:
    """Finds samples of certain metrics, and looks at nothing else."""

    def __init__(self, names: Iterable[str]) -> None:
        alternatives = "|".join(re.escape(name) for name in sorted(names))
        self._lines = re.compile(rf"^({alternatives})(?=[{{ \t])[^\n]*".encode(), re.MULTILINE)

    def find(self, page: bytes) -> Samples:
        """The samples; never raises, however odd the page."""
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
    """One line of a page.

    Raises:
        ValueError: it is not a sample with a finite value that a count, a sum or a share can have.
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
        raise ValueError("more than a value and a timestamp")
    return Sample(labels=labels, value=parse_value(value))


def parse_value(text: str) -> float:
    """A value.

    Raises:
        ValueError: it is none that a count, a sum or a share can have.
    """
    if not _NUMBER.fullmatch(text) or (value := float(text)) > MAX_VALUE:
        raise ValueError("not a number, or none that is believed")
    return value


def _parse_labels(text: str, *, position: int) -> tuple[dict[str, str], int]:
    """Labels and where they end. Values keep their escapes: they are only compared."""
    labels: dict[str, str] = {}
    while not text.startswith("}", position):
        label = _LABEL.match(text, position)
        if label is None or label[1] in labels or len(labels) >= MAX_LABELS:
            raise ValueError("garbled labels")
        labels[label[1]] = label[2]
        position = label.end()
    return labels, position + 1

"""Reads from a Prometheus page how many requests a process still works on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from epd_worker.spec import Role

MAX_PAGE = 8 * 1024 * 1024
_MAX_LINE = 16 * 1024
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')


@dataclass(frozen=True)
class Series:
    """A metric name and the labels that its samples must carry."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


_GENERATE = Series("dynamo_component_inflight_requests", {"dynamo_endpoint": "generate"})


@dataclass(frozen=True)
class Signal:
    """How a role shows its work.

    `required` are alternatives, best first, of which the page must have one; `engine` are added up where present.
    Both count the same requests at different depths, so the larger of the two is the number in flight.
    """

    required: tuple[Series, ...]
    engine: tuple[Series, ...] = ()


_ENGINE = (Series("vllm:num_requests_running"), Series("vllm:num_requests_waiting"))
SIGNALS: Mapping[Role, Signal] = {
    Role.FRONTEND: Signal((Series("dynamo_frontend_active_requests"), Series("dynamo_frontend_inflight_requests"))),
    Role.ENCODER: Signal((_GENERATE,)),
    Role.PD: Signal((_GENERATE,), _ENGINE),
    Role.WORKER: Signal((_GENERATE,), _ENGINE),
}


def in_flight(role: Role, page: str) -> float | None:
    """Return the requests in flight; None when the page does not tell, which is not the same as zero."""
    signal = SIGNALS[role]
    names = {series.name for series in signal.required + signal.engine}
    totals: dict[str, float] = {}
    for name, labels, value in _samples(page, names):
        for series in signal.required + signal.engine:
            if series.name == name and all(labels.get(key) == want for key, want in series.labels.items()):
                totals[name] = totals.get(name, 0.0) + value
    if not all(math.isfinite(total) for total in totals.values()):
        return None
    for series in signal.required:
        if series.name in totals:
            engine = sum(totals.get(other.name, 0.0) for other in signal.engine)
            return max(totals[series.name], engine)
    return None


def _samples(page: str, names: set[str]) -> Iterator[tuple[str, dict[str, str], float]]:
    prefixes = tuple(names)
    for line in page.splitlines():
        # Cheap test first: a vLLM page has thousands of histogram lines.
        if not line.startswith(prefixes) or len(line) > _MAX_LINE:
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None or match[1] not in names:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        yield match[1], {label[1]: label[2] for label in _LABEL.finditer(match[2] or "")}, value

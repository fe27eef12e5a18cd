"""Reads the requests in flight from the metrics page of a process, and the unread embeddings from that of NIXL."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from epd_worker.spec import Role

MAX_PAGE = 8 * 1024 * 1024
_MAX_LINE = 16 * 1024
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\s*\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')


@dataclass(frozen=True)
class Series:
    """A metric name and the labels that its samples must carry."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Signal:
    """The metrics by which a role reports its requests in flight.

    `counted` are alternatives, best first; `engine` are added up where present. Both count the same requests, in Dynamo
    and in the engine, so the larger one is the number in flight. Without any of `counted` the number is unknown, unless
    the page has `idle_mark` and not `busy_mark`: a frontend before its first request (observed with Dynamo 1.6.1).
    """

    counted: tuple[Series, ...]
    engine: tuple[Series, ...] = ()
    idle_mark: Series | None = None
    busy_mark: Series | None = None

    def series(self) -> tuple[Series, ...]:
        """Return all series that are read."""
        marks = (mark for mark in (self.idle_mark, self.busy_mark) if mark is not None)
        return (*self.counted, *self.engine, *marks)


_GENERATE = (Series("dynamo_component_inflight_requests", {"dynamo_endpoint": "generate"}),)
_ENGINE = (Series("vllm:num_requests_running"), Series("vllm:num_requests_waiting"))
SIGNALS: Mapping[Role, Signal] = {
    Role.FRONTEND: Signal(
        counted=(Series("dynamo_frontend_active_requests"), Series("dynamo_frontend_inflight_requests")),
        idle_mark=Series("dynamo_frontend_disconnected_clients"),
        busy_mark=Series("dynamo_frontend_requests_total"),
    ),
    Role.ENCODER: Signal(counted=_GENERATE),
    Role.PD: Signal(counted=_GENERATE, engine=_ENGINE),
    Role.WORKER: Signal(counted=_GENERATE, engine=_ENGINE),
}


def in_flight(role: Role, page: str) -> float | None:
    """Return the requests in flight; None if the page does not show them, which does not count as zero."""
    signal = SIGNALS[role]
    totals = _totals(page, signal.series())
    if not all(math.isfinite(total) for total in totals.values()):
        return None
    for series in signal.counted:
        if series.name in totals:
            return max(totals[series.name], sum(totals.get(other.name, 0.0) for other in signal.engine))
    idle, busy = signal.idle_mark, signal.busy_mark
    if idle is not None and idle.name in totals and (busy is None or busy.name not in totals):
        return 0.0
    return None


_REGISTERED = Series("agent_memory_registered_total")
_DEREGISTERED = Series("agent_memory_deregistered_total")
_DROPPED = Series("agent_telemetry_events_dropped_total")


def unread_embeddings(page: str) -> float | None:
    """Return the bytes of embeddings that an encoder has announced and not released, from the page of NIXL.

    An encoder registers each embedding with NIXL before it answers, and deregisters it when it has been read, in both
    transfer modes (dynamo/common/multimodal/embedding_transfer.py, 1.6.1); both counters are in bytes
    (https://github.com/ai-dynamo/nixl/blob/1.4.1/docs/telemetry.md). None if the page does not show them. If NIXL has
    lost events, the difference of the counters stays wrong, so it is not waited for.
    """
    totals = _totals(page, (_REGISTERED, _DEREGISTERED, _DROPPED))
    if not all(math.isfinite(total) for total in totals.values()):
        return None
    if totals.get(_DROPPED.name):
        return 0.0
    try:
        return max(totals[_REGISTERED.name] - totals[_DEREGISTERED.name], 0.0)
    except KeyError:
        return None


def _totals(page: str, wanted: Sequence[Series]) -> dict[str, float]:
    """Return the sum of the samples of each wanted series that is on the page."""
    by_name = {series.name: series for series in wanted}
    totals: dict[str, float] = {}
    for name, labels, value in _samples(page, by_name.keys()):
        if all(labels.get(key) == want for key, want in by_name[name].labels.items()):
            totals[name] = totals.get(name, 0.0) + value
    return totals


def _samples(page: str, names: Set[str]) -> Iterator[tuple[str, dict[str, str], float]]:
    prefixes = tuple(names)
    for line in page.split("\n"):
        # The cheap test first: a vLLM page has thousands of histogram lines.
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

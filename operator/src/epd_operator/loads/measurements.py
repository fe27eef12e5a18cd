"""What a round of reading brings home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from epd_operator.loads.fetch import PageOutcome
from epd_operator.loads.latency import LatencyTotals, StageTotals
from epd_operator.loads.pod_metrics import PageReading
from epd_operator.loads.targets import Target
from epd_operator.scaling.model import PodLoad


@dataclass(frozen=True, kw_only=True)
class PageResult:
    """How reading one page ended; only a good end has values."""

    outcome: PageOutcome
    reading: PageReading = field(default_factory=PageReading)
    measured_at: float | None = None

    @classmethod
    def of(cls, reading: PageReading, *, measured_at: float) -> PageResult:
        """A page that was read; one that does not tell the requests tells nothing."""
        if reading.requests is None:
            return cls(outcome=PageOutcome.UNREADABLE)
        return cls(outcome=PageOutcome.OK, reading=reading, measured_at=measured_at)


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """What was read of one deployment's pods, by pod name.

    Attributes:
        loads: one for every pod that was asked for; without values where its page could not be read.
        latencies: totals of the frontends that could be read.
        stages: totals of the encoders and engines that could be read.
    """

    loads: Mapping[str, PodLoad] = field(default_factory=dict)
    latencies: Mapping[str, LatencyTotals] = field(default_factory=dict)
    stages: Mapping[str, StageTotals] = field(default_factory=dict)

    @classmethod
    def of(cls, targets: Sequence[Target], *, pages: Mapping[str, PageResult]) -> Measurements:
        """Readings of these targets, from the pages by pod name."""
        silent = PageResult(outcome=PageOutcome.UNREADABLE)
        loads = {}
        for target in targets:
            page = pages.get(target.pod, silent)
            loads[target.pod] = PodLoad(
                name=target.pod,
                ready=target.ready,
                requests=page.reading.requests,
                kv_cache_percent=page.reading.kv_cache_percent,
                measured_at=page.measured_at,
            )
        latencies = {pod: page.reading.latency for pod, page in pages.items() if page.reading.latency is not None}
        stages = {pod: page.reading.stages for pod, page in pages.items() if page.reading.stages is not None}
        return cls(loads=loads, latencies=latencies, stages=stages)

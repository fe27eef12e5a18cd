"""Results of a round, that is, of reading all pods of one deployment once."""

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
    """Result of reading one page. It has values only if the outcome is OK."""

    outcome: PageOutcome
    reading: PageReading = field(default_factory=PageReading)
    measured_at: float | None = None

    @classmethod
    def of(cls, reading: PageReading, *, measured_at: float) -> PageResult:
        """The result for a page that was fetched. Without a number of requests, the page counts as unreadable."""
        if reading.requests is None:
            return cls(outcome=PageOutcome.UNREADABLE)
        return cls(outcome=PageOutcome.OK, reading=reading, measured_at=measured_at)


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """Values of the pods of one deployment, by pod name.

    Attributes:
        loads: load of every requested pod; without values if its page could not be read.
        latencies: totals of the frontends that could be read.
        stages: totals of the encoders and engines that could be read.
    """

    loads: Mapping[str, PodLoad] = field(default_factory=dict)
    latencies: Mapping[str, LatencyTotals] = field(default_factory=dict)
    stages: Mapping[str, StageTotals] = field(default_factory=dict)

    @classmethod
    def of(cls, targets: Sequence[Target], *, pages: Mapping[str, PageResult]) -> Measurements:
        """Measurements of these targets, from the results by pod name."""
        missing = PageResult(outcome=PageOutcome.UNREADABLE)
        loads = {}
        for target in targets:
            page = pages.get(target.pod, missing)
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

"""What a round of reading brings home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from epd_operator.plan.scaling.model import PodLoad
from epd_operator.scrape.latency import LatencyTotals


@dataclass(frozen=True, kw_only=True)
class Readings:
    """What was read of one deployment's pods, by pod name.

    Attributes:
        loads: one for every pod that was asked for; without values where its page could not be read.
        latencies: totals of the frontends that could be read.
    """

    loads: Mapping[str, PodLoad] = field(default_factory=dict)
    latencies: Mapping[str, LatencyTotals] = field(default_factory=dict)

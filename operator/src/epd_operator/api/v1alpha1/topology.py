"""The three topologies and the stages of each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Topology(StrEnum):
    """How encode, prefill and decode are distributed over pods."""

    AGGREGATED = "Aggregated"
    CO_LOCATED = "CoLocated"
    DISAGGREGATED = "Disaggregated"


class StageName(StrEnum):
    """Names of the stages, which are also fields of spec, in the order in which requests pass them."""

    FRONTEND = "frontend"
    WORKER = "worker"
    GROUP = "group"
    ENCODER = "encoder"
    PD = "pd"


GPU_STAGES: Mapping[Topology, tuple[StageName, ...]] = {
    Topology.AGGREGATED: (StageName.WORKER,),
    Topology.CO_LOCATED: (StageName.GROUP,),
    Topology.DISAGGREGATED: (StageName.ENCODER, StageName.PD),
}
"""The GPU stages of each topology: all of them are required, and no others are allowed.

Every topology also has a frontend.
"""

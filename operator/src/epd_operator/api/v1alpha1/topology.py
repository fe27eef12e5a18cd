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
    """Names of the stages, in the order in which a request reaches them. Each is a field of spec."""

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
"""Stages with GPUs that a topology requires; it allows none of the others. Every topology has a frontend as well."""

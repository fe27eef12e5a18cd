"""The three topologies and the stages that each consists of."""

from __future__ import annotations

from enum import StrEnum


class Topology(StrEnum):
    """How encode, prefill and decode are spread over pods."""

    AGGREGATED = "Aggregated"
    CO_LOCATED = "CoLocated"
    DISAGGREGATED = "Disaggregated"


GPU_STAGES: dict[Topology, tuple[str, ...]] = {
    Topology.AGGREGATED: ("worker",),
    Topology.CO_LOCATED: ("group",),
    Topology.DISAGGREGATED: ("encoder", "pd"),
}
"""Fields of spec that a topology needs; it must have none of the others."""

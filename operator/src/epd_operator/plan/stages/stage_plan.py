"""A stage as it should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epd_operator.api.v1alpha1.topology import StageName


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """One stage as it should be.

    Attributes:
        name: which stage.
        replicas: number of pods.
        pool: name of the pool of nodes; None for frontends.
        pod_template: metadata and spec of its pods.
    """

    name: StageName
    replicas: int
    pool: str | None
    pod_template: dict[str, Any]

"""A stage as it should be, and what all kinds of stages share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.pools import Pool
from epd_operator.plan.identity import StageName
from epd_operator.plan.pod import CONTROL_PORT, DRAIN_SETTLE_SECONDS

LAUNCHER = ["python3", "-m", "epd_worker"]


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """One stage as it should be."""

    name: StageName
    replicas: int
    pool: str | None
    pod_template: dict[str, Any]


def pool_named(spec: EPDDeploymentSpec, *, stage: StageName, name: str) -> Pool:
    """The pool of that name.

    Raises:
        ValueError: the spec has none; the message names the stage's field.
    """
    for pool in spec.pools:
        if pool.name == name:
            return pool
    raise ValueError(f"spec.{stage}.pool: spec.pools has no pool {name!r}")


def drain_options(spec: EPDDeploymentSpec) -> list[str]:
    """Options of the launcher that say how pods leave."""
    return [
        *("--control-port", str(CONTROL_PORT)),
        *("--drain-timeout", str(spec.drain.timeout_seconds)),
        *("--settle", str(DRAIN_SETTLE_SECONDS)),
    ]

"""How a rollout replaces the pods of a stage. Names and meaning are those of a Deployment's rolling update."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from epd_operator.api.markers import IntOrPercent, Rule
from epd_operator.api.v1alpha1.base import ApiModel


def _is_zero(field: str) -> str:
    # The API server validates the default {} of this object before it sets the defaults of its fields.
    return f"has(self.{field}) && (self.{field} == 0 || self.{field} == '0%')"


class Rollout(ApiModel):
    """How a rollout replaces the pods of a stage, as in a Deployment's rolling update."""

    max_surge: IntOrPercent = Field(
        default="25%",
        description="Maximum number of pods above replicas during a rollout, as a number or in percent of replicas, "
        "rounded up. They need spare GPUs. 0 needs none: an old pod ends before its replacement starts.",
    )
    max_unavailable: IntOrPercent = Field(
        default="25%",
        description="Maximum number of replicas that may be missing during a rollout, as a number or in percent of "
        "replicas, rounded down. If it and maxSurge result in 0, Kubernetes uses 1.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            expression=f"!({_is_zero('maxSurge')} && {_is_zero('maxUnavailable')})",
            message="maxSurge and maxUnavailable must not both be 0, because no pod could be replaced: set "
            "maxUnavailable to 1",
            field_path=".maxUnavailable",
        ),
    )

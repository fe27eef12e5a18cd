"""How changes of the spec replace pods: of one stage, or of a whole revision."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from epd_operator.api.markers import Bool, Int, IntOrPercent, Rule
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


class RolloutStrategy(StrEnum):
    """How a new revision replaces the revision that serves."""

    BLUE_GREEN = "BlueGreen"
    ROLLING = "Rolling"
    RECREATE = "Recreate"


class TrafficStep(ApiModel):
    """A share of the traffic that a new revision gets for some time."""

    traffic_percent: Annotated[Int, Field(ge=1, le=99)] = Field(
        description="Share of new connections that the new revision gets, in percent. It is reached with numbers of "
        "frontends, so it is approximate; the condition Ready has the share that is reached."
    )
    pause_seconds: Annotated[Int, Field(ge=1, le=604800)] = Field(
        description="Time from the moment at which the share is reached to the next step, in seconds."
    )


class RevisionRollout(ApiModel):
    """How a new revision replaces the one that serves.

    A change that old and new processes cannot share (model, image, engine, topology, transfer, arguments of all engine
    processes) starts a new revision: all stages again, apart from the old ones.
    """

    strategy: RolloutStrategy = Field(
        default=RolloutStrategy.BLUE_GREEN,
        description="BlueGreen: the new revision starts beside the old one, gets the requests when it has answered a "
        "request of the operator, and then the old one is drained and removed. Both need their GPUs at the same time. "
        "Rolling: the same within fewer GPUs (maxSurgeGpus). The old revision is scaled down as far as maxUnavailable "
        "allows, the new one starts with the pods that fit, gets the requests when it has as many ready pods as "
        "maxUnavailable demands, and grows to its full size as the old one is removed. "
        "Recreate: the old revision is drained and removed first, so requests fail until the new one is ready.",
    )
    max_surge_gpus: Annotated[Int, Field(ge=0, le=100000)] = Field(
        default=0,
        description="Strategy Rolling: number of GPUs that both revisions together may use in each pool above those "
        "of the revision that serves. In a pool that only the new revision uses, it may use all that it needs.",
    )
    max_unavailable: IntOrPercent = Field(
        default="50%",
        description="Strategy Rolling: maximum number of replicas of each GPU stage that may be missing from the "
        "revision that serves, as a number or in percent of replicas, rounded up. One replica always remains.",
    )
    steps: Annotated[list[TrafficStep], Field(max_length=10)] = Field(
        default_factory=list,
        description="Strategy BlueGreen: shares of the traffic that a new revision gets, one after the other, before "
        "it gets all requests. If it answers clearly more requests with errors of the server than the old one, or "
        "loses all ready pods of a stage, the old one gets all requests again until the spec changes. Empty: it gets "
        "all requests at once.",
    )
    paused: Bool = Field(
        default=False,
        description="Whether rollouts pause: no pod is replaced, no revision is started, gets the requests or is "
        "removed. Stages are still scaled.",
    )
    progress_deadline_seconds: Annotated[Int, Field(ge=60, le=604800)] | None = Field(
        default=None,
        description="Time without progress of a stage after which it is reported as ProgressDeadlineExceeded, in "
        "seconds. Unset means runtime.startupTimeoutSeconds and 600 s.",
    )
    revision_history_limit: Annotated[Int, Field(ge=0, le=100)] = Field(
        default=10, description="Number of earlier specs to keep, as ControllerRevisions, for an undo."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            # The API server validates the default {} of this object before it sets the defaults of its fields.
            expression="!has(self.steps) || size(self.steps) == 0 || !has(self.strategy) || "
            "self.strategy == 'BlueGreen'",
            message="steps share the traffic between two complete revisions, which only strategy BlueGreen has: "
            "remove steps, or set strategy to BlueGreen",
            field_path=".steps",
        ),
    )

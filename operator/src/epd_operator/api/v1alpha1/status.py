"""Status of an EPDDeployment. Every reconcile computes it again from observed objects."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from epd_operator.api.markers import Int, Int64, ListMap
from epd_operator.api.v1alpha1.base import ApiModel
from epd_operator.api.v1alpha1.topology import Topology

UTC_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$"


class ConditionStatus(StrEnum):
    """Whether a condition is true. The operator never sets Unknown, but the Kubernetes API conventions include it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """A condition of the object, by the conventions of the Kubernetes API."""

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(description="Type of the condition.")
    status: ConditionStatus = Field(description="Whether the condition is true.")
    observed_generation: Annotated[Int64, Field(ge=0)] = Field(
        description="Generation of the spec that the condition describes."
    )
    last_transition_time: Annotated[str, Field(max_length=32, pattern=UTC_TIME)] = Field(
        description="When status last changed, in UTC, such as 2026-11-29T12:00:00Z."
    )
    reason: Annotated[
        str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    ] = Field(description="Cause, as one CamelCase word. docs/conditions.md explains each.")
    message: Annotated[str, Field(max_length=32768)] = Field(description="Cause, as human-readable text.")


class ScalingStatus(ApiModel):
    """The last scaling decision that changed something, with its numbers."""

    current: Annotated[Int, Field(ge=0, le=2147483647)] = Field(description="Replicas before the decision.")
    desired: Annotated[Int, Field(ge=0, le=2147483647)] = Field(description="Replicas after the decision.")
    reason: Annotated[str, Field(max_length=256)] = Field(
        description="Deciding rule, as one CamelCase word. docs/scaling-decisions.md explains each."
    )
    message: Annotated[str, Field(max_length=1024)] = Field(description="Explanation of the decision, with numbers.")
    signal: Annotated[str, Field(max_length=63)] | None = Field(default=None, description="Deciding metric.")
    value: Annotated[str, Field(max_length=32)] | None = Field(
        default=None, description="The metric per ready replica, as a decimal number."
    )
    target: Annotated[str, Field(max_length=32)] | None = Field(
        default=None, description="Target of the metric per replica, as a decimal number."
    )
    metric_age_seconds: Annotated[Int, Field(ge=0, le=2147483647)] | None = Field(
        default=None, description="Age of the oldest sample that was used, in whole seconds."
    )
    last_change_time: Annotated[str, Field(max_length=32, pattern=UTC_TIME)] | None = Field(
        default=None, description="When desired last changed."
    )


class StageStatus(ApiModel):
    """Pods of one stage."""

    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="frontend, worker, group, encoder or pd."
    )
    pool: Annotated[str, Field(max_length=63)] | None = Field(default=None, description="Pool that the pods run on.")
    desired: Annotated[Int, Field(ge=0, le=2147483647)] = Field(description="Desired number of pods.")
    ready: Annotated[Int, Field(ge=0, le=2147483647)] = Field(description="Number of ready pods.")
    updated: Annotated[Int, Field(ge=0, le=2147483647)] = Field(description="Number of pods with the current template.")
    reason: Annotated[str, Field(max_length=256)] | None = Field(
        default=None, description="Why pods are not ready, as one CamelCase word."
    )
    message: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None,
        description="Why pods are not ready: the message of Kubernetes and the last output of the process.",
    )
    scaling: ScalingStatus | None = Field(default=None, description="The last scaling decision.")


class RevisionState(StrEnum):
    """The part of a revision in a rollout."""

    SERVING = "Serving"
    STARTING = "Starting"
    LEAVING = "Leaving"


class RevisionStatus(ApiModel):
    """One revision that has pods."""

    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="Name of the revision: the value of the label epd.dev/revision of its pods."
    )
    state: RevisionState = Field(
        description="Serving: it gets the requests. Starting: it is to get them. Leaving: it is being removed."
    )
    topology: Topology | None = Field(default=None, description="Its topology; unset if its spec is not known.")
    summary: Annotated[str, Field(max_length=256)] = Field(description="Ready and desired pods per stage, in one line.")


class EPDDeploymentStatus(ApiModel):
    """Observed state."""

    observed_generation: Annotated[Int64, Field(ge=0)] = Field(
        default=0,
        description="Generation of the spec that this status describes. 0 until the operator has observed one.",
    )
    topology: Topology | None = Field(default=None, description="Topology of the revision that serves.")
    endpoint: Annotated[str, Field(max_length=512)] | None = Field(
        default=None, description="URL of the OpenAI-compatible endpoint inside the cluster."
    )
    summary: Annotated[str, Field(max_length=256)] | None = Field(
        default=None, description="Ready and desired pods per stage, in one line."
    )
    stages: Annotated[list[StageStatus], Field(max_length=8), ListMap(("name",))] | None = Field(
        default=None, description="Pods per stage of the revision that serves."
    )
    revisions: Annotated[list[RevisionStatus], Field(max_length=16), ListMap(("name",))] | None = Field(
        default=None, description="The revisions that have pods."
    )
    conditions: Annotated[list[Condition], Field(max_length=16), ListMap(("type",))] | None = Field(
        default=None,
        description="Ready, Available, Reconciling and Stalled; CRDOutdated while the CRDs are too old; "
        "NodesUnsuitable while no node can run the pods of a stage.",
    )

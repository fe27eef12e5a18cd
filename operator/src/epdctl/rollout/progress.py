"""What the status of an object says of its rollout, and whether a person has to act."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from epd_operator.api.untyped import items, mapping
from epd_operator.api.v1alpha1.rollout import RolloutStrategy
from epd_operator.plan.status.reasons import ConditionType, Reason

_ENDS_WITH_A_PERSON = (Reason.ROLLOUT_PAUSED, Reason.PROGRESS_DEADLINE_EXCEEDED, Reason.REVISION_RETURNED)
"""Reasons that do not end without a person; kubectl ends at an exceeded deadline, too."""


class Outcome(StrEnum):
    """Whether to wait any longer."""

    DONE = "Done"
    WAITING = "Waiting"
    NEEDS_PERSON = "NeedsPerson"


@dataclass(frozen=True)
class Revision:
    """One revision that has pods, as in the status: name, part in the rollout, topology, and pods per stage."""

    name: str
    state: str
    topology: str
    pods: str


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A rollout as the status shows it.

    Attributes:
        revisions: the revisions that have pods.
        is_observed: whether the status belongs to the present spec.
        is_ready: whether the condition Ready is true.
        is_stalled: whether the condition Stalled is true.
        reason: of Stalled if that is true, otherwise of Ready.
        message: its message.
        strategy: how a new revision replaces the one that serves.
        is_paused: whether rollouts are paused.
    """

    revisions: tuple[Revision, ...]
    is_observed: bool
    is_ready: bool
    is_stalled: bool
    reason: str
    message: str
    strategy: str
    is_paused: bool

    @property
    def outcome(self) -> Outcome:
        """Whether the rollout is done, goes on, or needs a person."""
        if not self.is_observed:
            return Outcome.WAITING
        if self.is_stalled or self.reason in _ENDS_WITH_A_PERSON:
            return Outcome.NEEDS_PERSON
        return Outcome.DONE if self.is_ready else Outcome.WAITING

    def as_data(self) -> dict[str, Any]:
        """For programs, with the names of fields that the status has."""
        return {
            "revisions": [asdict(revision) for revision in self.revisions],
            "strategy": self.strategy,
            "paused": self.is_paused,
            "outcome": str(self.outcome),
            "reason": self.reason,
            "waitsFor": self.waits_for,
        }

    @property
    def waits_for(self) -> str:
        """Reason and message of what is missing; empty if nothing is."""
        if not self.is_observed:
            return "the operator has not reported on the present spec yet; if this lasts, check that it is running"
        return "" if self.outcome is Outcome.DONE else f"{self.reason}: {self.message}"


def progress_of(live: Mapping[str, Any]) -> Progress:
    """The rollout of an object as it is at the API server."""
    status, rollout = mapping(live.get("status")), mapping(mapping(live.get("spec")).get("rollout"))
    conditions = {condition.get("type"): condition for condition in items(status.get("conditions"))}
    ready, stalled = (mapping(conditions.get(str(kind))) for kind in (ConditionType.READY, ConditionType.STALLED))
    is_stalled = stalled.get("status") == "True"
    shown = stalled if is_stalled else ready
    return Progress(
        revisions=tuple(_revision(revision) for revision in items(status.get("revisions"))),
        is_observed=bool(ready) and status.get("observedGeneration") == mapping(live.get("metadata")).get("generation"),
        is_ready=ready.get("status") == "True",
        is_stalled=is_stalled,
        reason=str(shown.get("reason") or ""),
        message=str(shown.get("message") or ""),
        strategy=str(rollout.get("strategy") or RolloutStrategy.BLUE_GREEN),
        is_paused=rollout.get("paused") is True,
    )


def _revision(found: Mapping[str, Any]) -> Revision:
    return Revision(*(str(found.get(field) or "") for field in ("name", "state", "topology", "summary")))

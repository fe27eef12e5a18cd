"""The next step from one revision to another: which revisions have pods, and which of them gets the requests.

A pure function of what is seen. No step is remembered: an operator that starts in the middle of a rollout continues it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from epd_operator.api.v1alpha1.rollout import RevisionRollout, RolloutStrategy
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.plan.observation import Verdict

REMOVAL_ORDER = (
    frozenset({StageName.FRONTEND}),
    frozenset({StageName.WORKER, StageName.GROUP, StageName.PD}),
    frozenset({StageName.ENCODER}),
)
"""A revision is removed in the order of its requests: what a process still answers needs the processes behind it."""


@dataclass(frozen=True, kw_only=True)
class RevisionView:
    """What is seen of a revision.

    Attributes:
        name: its name.
        pods: pods of each stage that has a Deployment, without those that have ended or whose node is lost.
        is_complete: whether all planned pods of all its stages are ready and have the present template.
        has_served: whether it has answered requests of users, or may have.
    """

    name: str
    pods: Mapping[StageName, int] = field(default_factory=dict)
    is_complete: bool = False
    has_served: bool = True


class Phase(StrEnum):
    """What the rollout waits for."""

    NONE = "None"
    STARTING = "Starting"
    VERIFYING = "Verifying"
    PAUSED = "Paused"
    REMOVING_FIRST = "RemovingFirst"


@dataclass(frozen=True, kw_only=True)
class Presence:
    """Stages of a revision that exist. All others are deleted.

    Attributes:
        running: stages with their planned replicas; None means all.
        draining: stages that are scaled to 0.
    """

    running: frozenset[StageName] | None = None
    draining: frozenset[StageName] = frozenset()


@dataclass(frozen=True, kw_only=True)
class RolloutStep:
    """What should be true now.

    Attributes:
        serving: the revision that gets the requests.
        presence: the revisions that have Deployments, by name.
        phase: what the rollout waits for.
    """

    serving: str
    presence: Mapping[str, Presence]
    phase: Phase = Phase.NONE


def next_step(
    *,
    target: RevisionView,
    serving: RevisionView,
    others: Sequence[RevisionView] = (),
    is_isolated: bool = True,
    policy: RevisionRollout,
    verdict: Verdict | None = None,
) -> RolloutStep:
    """The next step.

    Args:
        target: the revision of the present spec.
        serving: the revision that the Service selects; the target if there is no Service yet.
        others: further revisions that have Deployments.
        is_isolated: whether the Service selects only the serving revision.
        policy: ``spec.rollout``.
        verdict: the last answer through a revision's frontends.
    """
    if policy.paused:
        views = [view for view in (target, *others) if view.pods and view.name != serving.name]
        held = {view.name: Presence(running=frozenset(view.pods)) for view in views}
        phase = Phase.PAUSED if held or target.name != serving.name else Phase.NONE
        return RolloutStep(serving=serving.name, presence={serving.name: Presence(), **held}, phase=phase)
    leaving = dict(_leaving(others))
    if target.name == serving.name:
        return RolloutStep(serving=target.name, presence={target.name: Presence(), **leaving})
    if not serving.has_served:
        # No request was ever answered, so nothing is lost, and its GPUs are free for the new revision.
        return RolloutStep(serving=target.name, presence={target.name: Presence(), **leaving})
    if policy.strategy is RolloutStrategy.RECREATE:
        return _recreate(target, serving, leaving)
    return _blue_green(target, serving, leaving, is_isolated=is_isolated, verdict=verdict)


def _blue_green(
    target: RevisionView,
    serving: RevisionView,
    leaving: Mapping[str, Presence],
    *,
    is_isolated: bool,
    verdict: Verdict | None,
) -> RolloutStep:
    presence = {serving.name: Presence(), **leaving}
    if not is_isolated:
        if target.pods:
            presence[target.name] = Presence(running=frozenset(target.pods))
        return RolloutStep(serving=serving.name, presence=presence, phase=Phase.STARTING)
    presence[target.name] = Presence()
    if not target.is_complete:
        return RolloutStep(serving=serving.name, presence=presence, phase=Phase.STARTING)
    if verdict is None or verdict.revision != target.name or not verdict.passed:
        return RolloutStep(serving=serving.name, presence=presence, phase=Phase.VERIFYING)
    return RolloutStep(serving=target.name, presence=presence)


def _recreate(target: RevisionView, serving: RevisionView, leaving: Mapping[str, Presence]) -> RolloutStep:
    if any(serving.pods.values()):
        presence = {serving.name: _drained(serving), **leaving}
        return RolloutStep(serving=serving.name, presence=presence, phase=Phase.REMOVING_FIRST)
    return RolloutStep(serving=target.name, presence={target.name: Presence(), **leaving})


def _leaving(views: Sequence[RevisionView]) -> Iterator[tuple[str, Presence]]:
    """Revisions that are drained; the others are deleted at once."""
    for view in views:
        if view.has_served and any(view.pods.values()):
            yield view.name, _drained(view)


def _drained(view: RevisionView) -> Presence:
    """Scale the stages to 0 in the order of the requests, each when the one before has no pods any more."""
    draining: set[StageName] = set()
    for stages in REMOVAL_ORDER:
        draining |= stages & view.pods.keys()
        if any(view.pods.get(stage) for stage in stages):
            break
    return Presence(running=frozenset(view.pods) - draining, draining=frozenset(draining))

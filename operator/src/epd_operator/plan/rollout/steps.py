"""The next step from one revision to another: which revisions have pods, and which of them gets the requests.

A pure function of what is seen. No step is remembered: an operator that starts in the middle of a rollout continues it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from epd_operator.api.v1alpha1.rollout import RevisionRollout, RolloutStrategy
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.plan.observation import Verdict
from epd_operator.plan.rollout.shares import Pair, Share, ShareState, Traffic, next_share
from epd_operator.plan.rollout.sizes import (
    Gpus,
    Limits,
    Sizes,
    Stages,
    StageView,
    full_of,
    gpus_with,
    has_least,
    limits_of,
    next_replicas,
    sizes_of,
    used_by,
)

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
        stages: its planned stages; empty if its spec is not known.
        is_complete: whether all planned pods of all its stages are ready and have the present template.
        has_served: whether it has answered requests of users, or may have.
        is_known: whether its spec is known. Without it, its stages cannot be drained one after the other.
        lost: a stage without a ready pod; empty if there is none.
    """

    name: str
    pods: Mapping[StageName, int] = field(default_factory=dict)
    stages: Stages = field(default_factory=dict)
    is_complete: bool = False
    has_served: bool = True
    is_known: bool = True
    lost: str = ""


class Phase(StrEnum):
    """What the rollout waits for."""

    NONE = "None"
    STARTING = "Starting"
    VERIFYING = "Verifying"
    SHARING = "Sharing"
    RETURNED = "Returned"
    BLOCKED = "Blocked"
    PAUSED = "Paused"
    REMOVING_FIRST = "RemovingFirst"


@dataclass(frozen=True, kw_only=True)
class Presence:
    """Stages of a revision that exist. All others are deleted.

    Attributes:
        running: stages that keep the replicas that they have; None means all, with their full replicas.
        draining: stages that are scaled to 0.
        replicas: replicas of stages that do not have their full ones.
        frontends: number of frontends, if it decides on a share of the traffic.
    """

    running: frozenset[StageName] | None = None
    draining: frozenset[StageName] = frozenset()
    replicas: Mapping[StageName, int] = field(default_factory=dict)
    frontends: int | None = None


@dataclass(frozen=True, kw_only=True)
class RolloutStep:
    """What should be true now.

    Attributes:
        serving: the revision that gets the requests.
        presence: the revisions that have Deployments, by name.
        phase: what the rollout waits for.
        share: the share of the traffic that the target gets before it serves; None if it gets none.
    """

    serving: str
    presence: Mapping[str, Presence]
    phase: Phase = Phase.NONE
    share: Share | None = None


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """What decides about a step, beside the revisions themselves.

    Attributes:
        policy: ``spec.rollout``.
        limits: the GPUs that all revisions may use together.
        beside: GPUs of pods of other revisions than the target and the one that serves.
        verdict: the last answer through a revision's frontends.
        traffic: what is seen of the traffic.
    """

    policy: RevisionRollout
    limits: Limits
    beside: Gpus
    verdict: Verdict | None
    traffic: Traffic

    @property
    def is_rolling(self) -> bool:
        return self.policy.strategy is RolloutStrategy.ROLLING

    def accepts(self, view: RevisionView) -> bool:
        """Whether the revision has answered."""
        return self.verdict is not None and self.verdict.revision == view.name and self.verdict.passed

    def has_least(self, view: RevisionView) -> bool:
        """Whether the revision has enough ready pods to serve during a rollout."""
        return has_least(view.stages, max_unavailable=self.policy.max_unavailable)


def next_step(
    *,
    target: RevisionView,
    serving: RevisionView,
    others: Sequence[RevisionView] = (),
    is_isolated: bool = True,
    policy: RevisionRollout,
    budget: int | None = None,
    beside: Gpus | None = None,
    verdict: Verdict | None = None,
    traffic: Traffic | None = None,
) -> RolloutStep:
    """The next step.

    Args:
        target: the revision of the present spec.
        serving: the revision that the Service selects; the target if there is no Service yet.
        others: further revisions that have Deployments.
        is_isolated: whether the Service selects only the serving revision.
        policy: ``spec.rollout``.
        budget: ``spec.scaling.gpuBudget``.
        beside: GPUs of pods whose Deployment does not exist any more.
        verdict: the last answer through a revision's frontends.
        traffic: what is seen of the traffic of the target, if it gets a share.
    """
    limits = limits_of(serving.stages, target.stages, surge=policy.max_surge_gpus, budget=budget)
    used = sum((used_by(view.stages) for view in others), start=beside or Counter())
    rules = _Rules(policy=policy, limits=limits, beside=used, verdict=verdict, traffic=traffic or Traffic())
    if policy.paused:
        return _paused(target, serving, others, rules)
    leaving = dict(_leaving(others))
    is_recreated = policy.strategy is RolloutStrategy.RECREATE
    if target.name == serving.name or not serving.has_served or (is_recreated and not serving.is_known):
        # Without an answered request nothing is lost, and the GPUs of the old revision are free for the new one. Stages
        # of a revision whose spec is not known can only be deleted together.
        own = _growing(target, rules) if target.name == serving.name else Presence()
        return RolloutStep(serving=target.name, presence={target.name: own, **leaving})
    if is_recreated:
        return _recreate(target, serving, leaving, rules)
    shares = policy.strategy is RolloutStrategy.BLUE_GREEN and bool(policy.steps)
    if not is_isolated and not (shares and rules.traffic.mark is not None):
        held = {target.name: _held(target)} if target.pods else {}
        presence = {serving.name: Presence(), **held, **leaving}
        return RolloutStep(serving=serving.name, presence=presence, phase=Phase.STARTING)
    if rules.is_rolling:
        return _rolling(target, serving, leaving, rules)
    return _blue_green(target, serving, leaving, rules, budget=budget)


def _paused(target: RevisionView, serving: RevisionView, others: Sequence[RevisionView], rules: _Rules) -> RolloutStep:
    held = {view.name: _held(view) for view in (target, *others) if view.pods and view.name != serving.name}
    phase = Phase.PAUSED if held or target.name != serving.name else Phase.NONE
    own = _as_is(serving) if held and rules.is_rolling else Presence()
    traffic, share = rules.traffic, None
    if target.name != serving.name and (traffic.mark is not None or traffic.returned):
        is_open, seen = traffic.is_shared and traffic.is_alone, _frontends(serving).desired
        state = ShareState.SHARED if is_open else ShareState.PREPARING
        share = Share(state=state, mark=traffic.mark, returned=traffic.returned, is_open=is_open)
        own = Presence(frontends=seen) if seen and is_open else own
    return RolloutStep(serving=serving.name, presence={serving.name: own, **held}, phase=phase, share=share)


def _blue_green(
    target: RevisionView,
    serving: RevisionView,
    leaving: Mapping[str, Presence],
    rules: _Rules,
    *,
    budget: int | None,
) -> RolloutStep:
    has_begun = any(stage.gpus and stage.desired for stage in target.stages.values())
    both = (gpus_with(view.stages, full_of(view.stages)) for view in (serving, target))
    if budget is not None and not has_begun and rules.limits.missing_in_total(*both):
        return RolloutStep(serving=serving.name, presence={serving.name: Presence(), **leaving}, phase=Phase.BLOCKED)
    presence = {serving.name: Presence(), target.name: Presence(), **leaving}
    may_share = bool(rules.policy.steps) and serving.is_known and target.is_known
    if may_share and (rules.traffic.mark is not None or rules.traffic.returned or rules.accepts(target)):
        return _shared(target, serving, presence, rules)
    return _started(target, serving, presence, rules, is_ready=target.is_complete)


def _shared(
    target: RevisionView, serving: RevisionView, presence: Mapping[str, Presence], rules: _Rules
) -> RolloutStep:
    """The step of a revision that has answered, and gets shares of the traffic first."""
    if rules.traffic.mark is None and not rules.traffic.returned and not target.is_complete:
        return RolloutStep(serving=serving.name, presence=presence, phase=Phase.STARTING)
    pair = Pair(
        new=target.name,
        frontends=(_frontends(serving), _frontends(target)),
        is_new_ready=not target.lost and all(s.ready >= s.full for s in target.stages.values() if s.gpus),
        lost=target.lost,
        is_old_available=not serving.lost,
    )
    share = next_share(pair, steps=rules.policy.steps, traffic=rules.traffic)
    if share.state is ShareState.NOT_READY:
        return RolloutStep(serving=serving.name, presence=presence, phase=Phase.STARTING)
    if share.frontends is not None:
        sizes = {serving.name: share.frontends.old, target.name: share.frontends.new}
        presence = {**presence, **{name: Presence(frontends=size) for name, size in sizes.items()}}
    if share.state is ShareState.OVER:
        return RolloutStep(serving=target.name, presence=presence, share=share)
    phase = Phase.RETURNED if share.state is ShareState.RETURNED else Phase.SHARING
    return RolloutStep(serving=serving.name, presence=presence, phase=phase, share=share)


def _frontends(view: RevisionView) -> StageView:
    return view.stages.get(StageName.FRONTEND, StageView(full=1))


def _rolling(
    target: RevisionView, serving: RevisionView, leaving: Mapping[str, Presence], rules: _Rules
) -> RolloutStep:
    """Scale the old revision down as far as it may, and start the new one with the pods that fit."""
    old, new, limits = serving.stages, target.stages, rules.limits
    is_ready = rules.has_least(target)
    sizes = sizes_of(old, new, limits=limits, max_unavailable=rules.policy.max_unavailable)
    if sizes is None and not is_ready:
        used = rules.beside + used_by(new)
        own = next_replicas(old, most=full_of(old), beside=used, limits=limits)
        presence = {serving.name: Presence(replicas=own), **leaving}
        return RolloutStep(serving=serving.name, presence=presence, phase=Phase.BLOCKED)
    sizes = sizes or Sizes(old=_as_is(serving).replicas, new=_as_is(target).replicas)
    # Until pods of the one have gone, pods of the other do not start.
    before = next_replicas(old, most=sizes.old, beside=rules.beside + used_by(new), limits=limits)
    after = next_replicas(new, most=sizes.new, beside=rules.beside + used_by(old, replicas=sizes.old), limits=limits)
    presence = {serving.name: Presence(replicas=before), target.name: Presence(replicas=after), **leaving}
    return _started(target, serving, presence, rules, is_ready=is_ready)


def _started(
    target: RevisionView, serving: RevisionView, presence: Mapping[str, Presence], rules: _Rules, *, is_ready: bool
) -> RolloutStep:
    """The step of a revision that is to get the requests when it is ready and has answered."""
    if not is_ready:
        return RolloutStep(serving=serving.name, presence=presence, phase=Phase.STARTING)
    if not rules.accepts(target):
        return RolloutStep(serving=serving.name, presence=presence, phase=Phase.VERIFYING)
    return RolloutStep(serving=target.name, presence=presence)


def _recreate(
    target: RevisionView, serving: RevisionView, leaving: Mapping[str, Presence], rules: _Rules
) -> RolloutStep:
    if not any(serving.pods.values()):
        return RolloutStep(serving=target.name, presence={target.name: Presence(), **leaving})
    if rules.has_least(target):
        # It was started with another strategy, and makes the interruption unnecessary.
        presence = {serving.name: _as_is(serving), target.name: _as_is(target), **leaving}
        return _started(target, serving, presence, rules, is_ready=True)
    held = {target.name: _held(target)} if target.pods else {}
    presence = {serving.name: _drained(serving), **held, **leaving}
    return RolloutStep(serving=serving.name, presence=presence, phase=Phase.REMOVING_FIRST)


def _growing(view: RevisionView, rules: _Rules) -> Presence:
    """The revision that serves and is wanted: with strategy Rolling it gets the GPUs that other revisions leave."""
    is_reduced = bool(rules.beside) or any(stage.is_reduced for stage in view.stages.values())
    if not rules.is_rolling or not view.has_served or not is_reduced:
        return Presence()
    most = full_of(view.stages)
    return Presence(replicas=next_replicas(view.stages, most=most, beside=rules.beside, limits=rules.limits))


def _as_is(view: RevisionView) -> Presence:
    """The revision with the replicas that it has; a stage that has none gets all."""
    sizes = {name: min(stage.desired or stage.full, stage.full) for name, stage in view.stages.items()}
    return Presence(replicas=sizes)


def _held(view: RevisionView) -> Presence:
    """The revision with the stages that it has, and no others."""
    return Presence(running=frozenset(view.pods))


def _leaving(views: Sequence[RevisionView]) -> Iterator[tuple[str, Presence]]:
    """Revisions that are drained; the others are deleted at once."""
    for view in views:
        if view.is_known and view.has_served and any(view.pods.values()):
            yield view.name, _drained(view)


def _drained(view: RevisionView) -> Presence:
    """Scale the stages to 0 in the order of the requests, each when the one before has no pods any more."""
    draining: set[StageName] = set()
    for stages in REMOVAL_ORDER:
        draining |= stages & view.pods.keys()
        if any(view.pods.get(stage) for stage in stages):
            break
    return Presence(running=frozenset(view.pods) - draining, draining=frozenset(draining))

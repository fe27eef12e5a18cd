"""The step from one revision to another, and whole rollouts step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epd_operator.api.v1alpha1.rollout import RevisionRollout, RolloutStrategy
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.plan.observation import Verdict
from epd_operator.plan.rollout.steps import Phase, Presence, RevisionView, RolloutStep, next_step

FRONTEND, ENCODER, PD, WORKER = StageName.FRONTEND, StageName.ENCODER, StageName.PD, StageName.WORKER
OLD = RevisionView(name="old", pods={FRONTEND: 2, ENCODER: 2, PD: 3}, is_complete=True)
NEW = RevisionView(name="new", has_served=False)
COMPLETE = replace(NEW, pods={FRONTEND: 1, WORKER: 2}, is_complete=True)
PASSED = Verdict(revision="new", passed=True, message="")
BLUE_GREEN = RevisionRollout()
RECREATE = RevisionRollout(strategy=RolloutStrategy.RECREATE)


def step(
    target: RevisionView = NEW,
    serving: RevisionView = OLD,
    *others: RevisionView,
    policy: RevisionRollout = BLUE_GREEN,
    verdict: Verdict | None = None,
    is_isolated: bool = True,
) -> RolloutStep:
    return next_step(
        target=target, serving=serving, others=others, policy=policy, verdict=verdict, is_isolated=is_isolated
    )


def test_a_revision_that_serves_and_is_wanted_needs_no_step() -> None:
    assert step(OLD, OLD) == RolloutStep(serving="old", presence={"old": Presence()})


def test_the_old_revision_serves_while_the_new_one_starts() -> None:
    assert step() == RolloutStep(serving="old", presence={"old": Presence(), "new": Presence()}, phase=Phase.STARTING)


@pytest.mark.parametrize(
    "verdict",
    [None, replace(PASSED, passed=False), replace(PASSED, revision="other")],
    ids=["not asked yet", "wrong answer", "answer of another revision"],
)
def test_a_complete_revision_gets_no_request_before_it_has_answered(verdict: Verdict | None) -> None:
    found = step(COMPLETE, verdict=verdict)
    assert (found.serving, found.phase) == ("old", Phase.VERIFYING)
    assert found.presence["old"] == Presence()


def test_a_complete_revision_that_has_answered_gets_the_requests_and_the_old_one_leaves_in_later_steps() -> None:
    found = step(COMPLETE, verdict=PASSED)
    assert found.serving == "new"
    assert found.presence["old"] == Presence(), "its pods stay until the Service is seen to select the new ones"


def test_an_answer_does_not_help_a_revision_that_is_not_complete_any_more() -> None:
    assert step(replace(COMPLETE, is_complete=False), verdict=PASSED).serving == "old"


def test_no_other_revision_starts_while_the_service_selects_all_frontends() -> None:
    found = step(is_isolated=False)
    assert (set(found.presence), found.serving, found.phase) == ({"old"}, "old", Phase.STARTING)
    begun = step(COMPLETE, is_isolated=False).presence["new"]
    assert begun == Presence(running=frozenset(COMPLETE.pods)), "one that has begun is kept"


def test_the_old_revision_is_drained_in_the_order_of_the_requests_and_then_deleted() -> None:
    serving, pods, seen = replace(COMPLETE, has_served=True), dict(OLD.pods), []
    for _ in range(10):
        found = step(serving, serving, replace(OLD, pods=pods))
        presence = found.presence.get("old")
        if presence is None:
            break
        seen.append(presence)
        for stage in presence.draining:
            pods[stage] = 0
    assert seen == [
        Presence(running=frozenset({PD, ENCODER}), draining=frozenset({FRONTEND})),
        Presence(running=frozenset({ENCODER}), draining=frozenset({FRONTEND, PD})),
        Presence(running=frozenset(), draining=frozenset({FRONTEND, PD, ENCODER})),
    ]


def test_a_revision_that_never_served_is_deleted_at_once() -> None:
    abandoned = RevisionView(name="third", pods={FRONTEND: 1, WORKER: 1}, has_served=False)
    assert "third" not in step(NEW, OLD, abandoned).presence
    assert "third" not in step(OLD, OLD, abandoned).presence


def test_a_serving_revision_that_never_answered_is_replaced_at_once() -> None:
    broken = replace(OLD, has_served=False)
    assert step(NEW, broken) == RolloutStep(serving="new", presence={"new": Presence()})


def test_a_change_of_mind_keeps_the_revision_that_serves_and_deletes_the_one_that_started() -> None:
    assert step(OLD, OLD, COMPLETE).presence == {"old": Presence()}


def test_recreate_removes_the_old_revision_before_the_new_one_starts() -> None:
    found = step(policy=RECREATE)
    assert (set(found.presence), found.serving, found.phase) == ({"old"}, "old", Phase.REMOVING_FIRST)
    assert found.presence["old"].draining == {FRONTEND}
    gone = replace(OLD, pods=dict.fromkeys(OLD.pods, 0))
    assert step(serving=gone, policy=RECREATE) == RolloutStep(serving="new", presence={"new": Presence()})


@pytest.mark.parametrize("strategy", list(RolloutStrategy))
def test_nothing_starts_moves_or_is_removed_while_the_rollout_is_paused(strategy: RolloutStrategy) -> None:
    paused = RevisionRollout(strategy=strategy, paused=True)
    found = step(COMPLETE, OLD, policy=paused, verdict=PASSED)
    assert (found.serving, found.phase) == ("old", Phase.PAUSED)
    assert found.presence == {"old": Presence(), "new": Presence(running=frozenset({FRONTEND, WORKER}))}
    assert set(step(policy=paused).presence) == {"old"}

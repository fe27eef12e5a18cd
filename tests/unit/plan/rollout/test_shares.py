"""Shares of the traffic that a new revision gets before it gets all requests: whole rollouts, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import REVISION_LABEL, Identity
from epd_operator.plan.observation import Answered, ChildKey, Comparison
from epd_operator.plan.planner import Plan, make_plan
from epd_operator.plan.rollout.history import RETURNED, TRAFFIC_STEP
from epd_operator.plan.rollout.shares import Frontends, StepMark, frontends_for, is_worse, mark_in
from epd_operator.plan.rollout.steps import Phase
from epd_operator.plan.status.builder import status_of
from support.specs import spec
from support.world import NOW, World

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
SERVICE = ChildKey("Service", "qwen")
IMAGE = {"image": "example.test/epd:2"}
THIRD = {"image": "example.test/epd:3"}
STEPS = {"steps": [{"trafficPercent": 10, "pauseSeconds": 600}, {"trafficPercent": 50, "pauseSeconds": 300}]}
MAX_ROUNDS = 200
FAILING = (Answered(requests=100, failed=20), Answered(requests=900, failed=2))


def round_of(world: World, wanted: EPDDeploymentSpec) -> Plan:
    """One reconcile, and ten seconds in which Kubernetes acts."""
    observation = world.observation()
    plan = make_plan(wanted, observation=observation)
    world.status = status_of(wanted, plan=plan, observation=observation, now=NOW)
    world.apply(plan)
    check_selection(world, plan)
    world.step()
    return plan


def check_selection(world: World, plan: Plan) -> None:
    """Two revisions are selected only while they share the traffic, and then no third one has frontends."""
    if selected(world) is None:
        both = {plan.rollout.serving.name or "initial", plan.rollout.target.name or "initial"}
        assert plan.rollout.is_shared
        assert set(frontends(world)) == both


def settle(world: World, wanted: EPDDeploymentSpec) -> None:
    """Reconcile until all is done."""
    for _ in range(MAX_ROUNDS):
        plan = round_of(world, wanted)
        if not plan.apply and not plan.delete and ready(world)["status"] == "True":
            return
    raise AssertionError(world.status)


def ready(world: World) -> dict[str, Any]:
    """The condition Ready."""
    return next(c for c in world.status["conditions"] if c["type"] == "Ready")


def selected(world: World) -> str | None:
    """The revision that the Service selects; None if it selects all."""
    found: str | None = world.children[SERVICE]["spec"]["selector"].get(REVISION_LABEL)
    return found


def deployments(world: World, stage: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The Deployments of a stage, by revision."""
    for key, child in world.children.items():
        labels = child["metadata"].get("labels", {})
        if key.kind == "Deployment" and labels["app.kubernetes.io/component"] == stage:
            yield labels[REVISION_LABEL], child


def frontends(world: World) -> dict[str, int]:
    """Ready frontends by revision."""
    return {revision: child["status"].get("readyReplicas", 0) for revision, child in deployments(world, "frontend")}


def annotations(world: World, name: str) -> list[str]:
    """The values of an annotation of the records."""
    found = (c["metadata"].get("annotations", {}) for k, c in world.children.items() if k.kind == "ControllerRevision")
    return [values[name] for values in found if name in values]


def new_name(world: World, wanted: EPDDeploymentSpec) -> str:
    """The revision of a spec."""
    return make_plan(wanted, observation=world.observation()).rollout.target.name


def shared(steps: dict[str, Any] = STEPS, runtime: dict[str, str] = IMAGE, **changes: Any) -> tuple[World, Any]:
    """Two revisions that share the traffic in the first step, and the spec."""
    world, wanted = World(IDENTITY), spec(runtime=runtime, rollout=steps, **changes)
    settle(world, spec())
    for _ in range(MAX_ROUNDS):
        if round_of(world, wanted).rollout.is_shared:
            break
    assert selected(world) is None
    return world, wanted


def test_each_step_gives_its_share_for_its_time_and_then_the_new_revision_gets_all_requests() -> None:
    world, wanted = World(IDENTITY), spec(runtime=IMAGE, rollout=STEPS)
    settle(world, spec())
    seen: dict[tuple[str | None, int, int], timedelta] = {}
    new = new_name(world, wanted)
    for _ in range(MAX_ROUNDS):
        before = world.at
        round_of(world, wanted)
        found = (selected(world), frontends(world).get("initial", 0), frontends(world).get(new, 0))
        seen[found] = seen.get(found, timedelta()) + (world.at - before)
        if ready(world)["status"] == "True" and selected(world) == new:
            break
    assert seen[(None, 9, 1)] >= timedelta(seconds=600)
    assert timedelta(seconds=300) <= seen[(None, 1, 1)] < timedelta(seconds=600)
    assert not any(revision is None and new_ones > 1 for revision, _, new_ones in seen)
    assert (frontends(world), annotations(world, TRAFFIC_STEP)) == ({new: 1}, [])
    assert not make_plan(wanted, observation=world.observation()).apply


def test_nothing_is_written_within_a_step_and_the_status_has_the_share_and_the_end() -> None:
    world, wanted = shared()
    plan = round_of(world, wanted)
    for _ in range(5):
        plan = round_of(world, wanted)
        assert (plan.apply, plan.delete) == ((), ())
    message = ready(world)["message"]
    assert ready(world)["reason"] == "RevisionSharing"
    assert "gets about 10 % of new connections (1 of 10 frontends) until 2026-01-01T00:" in message
    assert message.endswith("step 1 of 2 (trafficPercent: 10)")
    assert plan.rollout.share is not None
    assert plan.rollout.share.ends is not None


def test_both_revisions_keep_all_gpu_pods_while_they_share() -> None:
    world, wanted = shared()
    for _ in range(MAX_ROUNDS):
        if selected(world) is None:
            for stage, count in (("encoder", 2), ("pd", 3)):
                assert [d["status"]["readyReplicas"] for _, d in deployments(world, stage)] == [count, count]
        round_of(world, wanted)


def test_the_service_selects_both_only_when_exactly_the_frontends_of_the_share_are_ready() -> None:
    world, wanted = World(IDENTITY), spec(runtime=IMAGE, rollout=STEPS)
    settle(world, spec())
    while selected(world) is not None:
        before = frontends(world)
        round_of(world, wanted)
    assert sorted(before.values()) == [1, 9]


def test_an_operator_that_starts_in_the_middle_counts_from_the_recorded_time() -> None:
    world, wanted = shared()
    (mark,) = annotations(world, TRAFFIC_STEP)
    assert mark.startswith("0 2026-01-01T00:")
    world.at += timedelta(seconds=590)
    for _ in range(3):
        round_of(world, wanted)
    (mark,) = annotations(world, TRAFFIC_STEP)
    assert mark.startswith("1")


def test_a_paused_rollout_keeps_the_share_and_the_numbers_of_frontends() -> None:
    world, wanted = shared()
    before = frontends(world)
    for _ in range(100):
        round_of(world, spec(runtime=IMAGE, rollout={**STEPS, "paused": True}))
        assert (selected(world), frontends(world)) == (None, before)
    assert ready(world)["reason"] == "RolloutPaused"
    settle(world, wanted)
    assert selected(world) not in (None, "initial")


@pytest.mark.parametrize(
    ("after", "rollout"),
    [(IMAGE, {"paused": True}), (THIRD, {}), (THIRD, {"paused": True}), (THIRD, {"strategy": "Recreate", "steps": []})],
)
def test_any_edit_first_returns_the_traffic_to_the_revision_that_serves_alone(
    after: dict[str, str], rollout: dict[str, Any]
) -> None:
    world, _ = shared()
    wanted = spec(runtime=after, rollout={**STEPS, **rollout}, drain={"timeoutSeconds": 77})
    plan = round_of(world, wanted)
    assert selected(world) == "initial"
    assert plan.rollout.serving.name == ""
    assert len(frontends(world)) <= 2, "the third revision is not started while the Service selects all"
    settle(world, spec(runtime=after, rollout=STEPS, drain={"timeoutSeconds": 77}))
    assert selected(world) not in (None, "initial")


def test_an_edit_back_returns_the_traffic_and_removes_the_new_revision() -> None:
    world, _ = shared()
    round_of(world, spec(rollout=STEPS))
    assert selected(world) == "initial"
    settle(world, spec(rollout=STEPS))
    assert frontends(world) == {"initial": 1}
    assert annotations(world, TRAFFIC_STEP) == []


@pytest.mark.parametrize("rollout", [{}, {"strategy": "Rolling"}, {"strategy": "Recreate"}])
def test_without_steps_in_the_middle_the_rollout_ends_as_its_strategy_says(rollout: dict[str, Any]) -> None:
    world, _ = shared()
    settle(world, spec(runtime=IMAGE, rollout=rollout))
    assert selected(world) not in (None, "initial")


@pytest.mark.parametrize("cause", ["errors", "pods"])
def test_after_errors_or_without_ready_pods_the_old_revision_gets_all_requests_until_the_spec_changes(
    cause: str,
) -> None:
    world, wanted = shared()
    new = new_name(world, wanted)
    if cause == "errors":
        world.comparison = Comparison(revision=new, new=FAILING[0], old=FAILING[1])
    else:
        world.children[ChildKey("Deployment", f"qwen-pd-{new}")]["status"]["readyReplicas"] = 0
    round_of(world, wanted)
    assert selected(world) == "initial"
    world.comparison = None
    for _ in range(MAX_ROUNDS):
        plan = round_of(world, wanted)
        assert selected(world) == "initial"
    assert (plan.apply, plan.delete) == ((), ())
    assert (ready(world)["reason"], frontends(world)["initial"]) == ("RevisionReturned", 1)
    assert {"errors": "20 of 100 requests failed", "pods": "stage pd had no ready pods"}[cause] in ready(world)[
        "message"
    ]
    settle(world, spec(rollout=STEPS))
    assert annotations(world, RETURNED) == []
    settle(world, wanted)
    assert selected(world) == new


def test_after_a_return_an_empty_list_of_steps_gives_the_new_revision_all_requests() -> None:
    world, wanted = shared()
    world.comparison = Comparison(revision=new_name(world, wanted), new=FAILING[0], old=FAILING[1])
    round_of(world, wanted)
    assert annotations(world, RETURNED)
    settle(world, spec(runtime=IMAGE))
    assert selected(world) not in (None, "initial")


def test_if_the_old_revision_has_no_ready_pods_the_new_one_gets_all_requests_at_once() -> None:
    world, wanted = shared()
    world.children[ChildKey("Deployment", "qwen-pd")]["status"]["readyReplicas"] = 0
    round_of(world, wanted)
    assert selected(world) == new_name(world, wanted)


def test_an_undo_in_the_middle_of_a_removal_knows_which_of_two_revisions_that_had_all_requests_serves() -> None:
    world, wanted = World(IDENTITY), spec(runtime=IMAGE, rollout=STEPS)
    settle(world, spec())
    new = new_name(world, wanted)
    while selected(world) != new:
        round_of(world, wanted)
    back = spec(rollout=STEPS)
    while selected(world) == new:
        assert round_of(world, back).rollout.serving.name == new
    assert selected(world) is None
    for _ in range(10):
        assert round_of(world, back).rollout.serving.name == new
    settle(world, back)
    assert selected(world) == "initial"


def test_a_client_that_changes_the_service_in_the_middle_changes_nothing_for_long() -> None:
    for label in ("initial", "new", "beef"):
        world, wanted = shared()
        new = new_name(world, wanted)
        world.children[SERVICE]["spec"]["selector"][REVISION_LABEL] = new if label == "new" else label
        round_of(world, wanted)
        assert selected(world) is None
        assert make_plan(wanted, observation=world.observation()).rollout.serving.name == ""


def test_a_client_that_removes_the_revision_from_the_service_before_the_answer_does_not_open_it() -> None:
    world, wanted = World(IDENTITY), spec(runtime=IMAGE, rollout=STEPS)
    settle(world, spec())
    world.answers = False
    for _ in range(20):
        assert round_of(world, wanted).rollout.phase is not Phase.SHARING
    world.children[SERVICE]["spec"]["selector"].pop(REVISION_LABEL)
    round_of(world, wanted)
    assert selected(world) == "initial"


@pytest.mark.parametrize(
    ("percent", "old", "expected"),
    [
        (10, 1, Frontends(old=9, new=1)),
        (1, 1, Frontends(old=10, new=1)),
        (50, 1, Frontends(old=1, new=1)),
        (90, 1, Frontends(old=1, new=9)),
        (10, 20, Frontends(old=27, new=3)),
        (50, 20, Frontends(old=20, new=10)),
    ],
)
def test_the_numbers_of_frontends_are_the_nearest_with_at_most_ten_more(
    percent: int, old: int, expected: Frontends
) -> None:
    assert frontends_for(percent, old=old) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ((100, 20), (900, 2), True),
        ((100, 4), (900, 0), False),
        ((100, 10), (900, 90), False),
        ((100, 100), (900, 900), False),
        ((10, 10), (0, 0), True),
        ((1000, 30), (9000, 180), False),
        ((1000, 50), (9000, 180), True),
        ((0, 0), (0, 0), False),
    ],
)
def test_a_revision_is_worse_only_if_chance_does_not_explain_its_errors(
    new: tuple[int, int], old: tuple[int, int], expected: bool
) -> None:
    counts = [Answered(requests=requests, failed=failed) for requests, failed in (new, old)]
    assert is_worse(Comparison(revision="x", new=counts[0], old=counts[1])) is expected


def test_a_mark_is_read_as_it_was_written_and_a_spoilt_one_is_none() -> None:
    for mark in (StepMark(), StepMark(index=3), StepMark(index=1, since=datetime(2026, 1, 1, 2, 3, 4, tzinfo=UTC))):
        assert mark_in(str(mark)) == mark
    for text in ("", "x", "-1", "0 yesterday", "1 2026", "999", "٣", "0 2026-01-01T00:00:00+00:00"):
        assert mark_in(text) is None

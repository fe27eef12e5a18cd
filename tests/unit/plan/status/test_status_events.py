"""What users are told of the difference between two statuses."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import Identity, StageKey
from epd_operator.plan.planner import make_plan
from epd_operator.plan.status.builder import status_of
from epd_operator.plan.status.reasons import ConditionType, Reason
from epd_operator.plan.status.status_events import (
    MAX_NOTE,
    EventReason,
    EventType,
    StatusEvent,
    scaling_event,
    status_events,
)
from epd_operator.scaling.model import Decision, ScalingReason
from support.specs import TOPOLOGIES, spec
from support.world import NOW, World


def status(
    stages: dict[str, str | None] | None = None, *, topology: str = "Disaggregated", **conditions: tuple[bool, str]
) -> dict[str, Any]:
    """A status with a reason for each stage, and with whether a condition holds and why."""
    return {
        "topology": topology,
        "stages": [
            {"name": name, "ready": 0, "desired": 1, "updated": 1} | ({"reason": r, "message": "words"} if r else {})
            for name, r in (stages or {}).items()
        ],
        "conditions": [
            {"type": kind, "status": str(holds), "reason": reason, "message": f"{kind} words"}
            for kind, (holds, reason) in conditions.items()
        ],
    }


def told(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str]]:
    return [(announcement.type.value, announcement.reason) for announcement in status_events(before, after)]


def test_a_new_object_that_starts_is_nothing_to_tell() -> None:
    after = status(
        {"pd": "PodsStarting"},
        Ready=(False, "PodsStarting"),
        Available=(False, "NoReadyPods"),
        Stalled=(False, "Settled"),
    )
    assert told({}, after) == []


def test_becoming_available_and_ready_is_told_and_losing_it_is_a_warning() -> None:
    starting = status(Ready=(False, "PodsStarting"), Available=(False, "NoReadyPods"))
    ready = status(Ready=(True, "AllStagesReady"), Available=(True, "RequestsAnswered"))
    assert told(starting, ready) == [("Normal", "RequestsAnswered"), ("Normal", "AllStagesReady")]
    assert told(ready, starting) == [("Warning", "NoReadyPods")]


@pytest.mark.parametrize("kind", ["Ready", "Available"])
@pytest.mark.parametrize("holds", [True, False])
def test_another_reason_for_the_same_state_is_neither_won_nor_lost(kind: str, holds: bool) -> None:
    assert told(status(**{kind: (holds, "RollingOut")}), status(**{kind: (holds, "PodsStarting")})) == []


@pytest.mark.parametrize("reason", ["NameTaken", "ChildRefused", "SpecInvalid"])
def test_what_needs_a_person_is_a_warning_once_per_cause(reason: str) -> None:
    free, stalled = status(Stalled=(False, "Settled")), status(Stalled=(True, reason))
    assert told({}, stalled) == told(free, stalled) == [("Warning", reason)]
    assert told(stalled, stalled) == []
    assert told(stalled, free) == [("Normal", "Resumed")]
    assert told(status(Stalled=(True, "NameTaken")), status(Stalled=(True, "ChildRefused"))) == [
        ("Warning", "ChildRefused")
    ]


def test_a_problem_of_pods_is_told_with_the_stage_and_the_pods_own_words() -> None:
    before, after = status({"encoder": None, "pd": "PodsStarting"}), status({"encoder": None, "pd": "CrashLooping"})
    (announcement,) = status_events(before, after)
    assert (announcement.type, announcement.reason) == (EventType.WARNING, "CrashLooping")
    assert announcement.note == "pd 0/1: words"


def test_a_problem_that_stays_is_not_told_again_for_another_pod() -> None:
    before, after = status({"pd": "CrashLooping"}), status({"pd": "CrashLooping"})
    after["stages"][0]["message"] = "another pod"
    assert told(before, after) == []


def test_rollouts_changes_of_topology_and_waiting_for_removal_are_told() -> None:
    before = status({"pd": None}, Ready=(True, "AllStagesReady"))
    assert told(before, status({"pd": "RollingOut"}, Ready=(False, "RollingOut"))) == [("Normal", "RollingOut")]
    assert told(before, status({"pd": None}, topology="CoLocated", Ready=(True, "AllStagesReady"))) == [
        ("Normal", "TopologyChanged")
    ]
    assert told({}, status(Ready=(False, "WaitingForRemoval"))) == [("Normal", "WaitingForRemoval")]


def test_each_step_of_a_rollout_is_told_once() -> None:
    def revisions(**states: str) -> dict[str, Any]:
        return {"revisions": [{"name": name, "state": state} for name, state in states.items()]}

    assert told({}, revisions(initial="Serving")) == []
    steps = [
        revisions(initial="Serving"),
        revisions(initial="Serving", beef="Starting"),
        revisions(beef="Serving", initial="Leaving"),
        revisions(beef="Serving"),
    ]
    events = [told(before, after) for before, after in pairwise(steps)]
    assert events == [[("Normal", reason)] for reason in ("RevisionStarted", "RevisionServes", "RevisionRemoved")]


@pytest.mark.parametrize("reason", ["ImagePullFailed", "RolloutBlocked", "VerificationFailed"])
def test_a_problem_of_a_revision_that_starts_is_a_warning_once(reason: str) -> None:
    before = status({"pd": None}, Ready=(False, "PodsStarting"))
    after = status({"pd": None}, Ready=(False, reason))
    assert told(before, after) == [("Warning", reason)]
    assert told(after, after) == []
    both = status({"pd": reason}, Ready=(False, reason))
    assert told(before, both) == [("Warning", reason)], "the stage tells it already"


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_an_object_that_becomes_ready_tells_so_once_and_is_silent_when_settled(topology: str) -> None:
    wanted, world = spec(topology), World(Identity(name="qwen", namespace="serving", uid="u-1"))
    found: list[StatusEvent] = []
    for _ in range(20):
        observation = world.observation()
        plan = make_plan(wanted, observation=observation)
        after = status_of(wanted, plan=plan, observation=observation, now=NOW)
        found += status_events(world.status, after)
        world.status = after
        world.apply(plan)
        world.step()
    reasons = [announcement.reason for announcement in found if announcement.reason != "RollingOut"]
    assert reasons == ["RequestsAnswered", "AllStagesReady"]


conditions = st.lists(
    st.builds(
        lambda kind, holds, reason, message: {
            "type": str(kind), "status": holds, "reason": str(reason), "message": message,
        },
        st.sampled_from(ConditionType), st.sampled_from(["True", "False", "Unknown"]), st.sampled_from(Reason),
        st.text(max_size=2000),
    ),
    unique_by=lambda condition: condition["type"],
)  # fmt: skip
stages = st.lists(
    st.builds(
        lambda name, reason, message: {"name": str(name), "reason": str(reason), "message": message},
        st.sampled_from(StageName), st.sampled_from(Reason), st.text(st.characters(), max_size=2000),
    ),
    unique_by=lambda stage: stage["name"],
)  # fmt: skip
statuses = st.fixed_dictionaries(
    {}, optional={"conditions": conditions, "stages": stages, "topology": st.sampled_from(TOPOLOGIES)}
)


@given(before=statuses, after=statuses)
def test_notes_are_single_lines_within_the_limits_of_the_api_and_reasons_are_known(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    for announcement in status_events(before, after):
        assert announcement.reason in (*Reason, *EventReason)
        assert len(announcement.note.encode()) <= MAX_NOTE
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", announcement.note)
    assert status_events(after, after) == ()


@pytest.mark.parametrize("message", ["é" * 2000, "x" * 2000, "\ud800" * 2000, "a\x1b[31m\nb"])
def test_a_note_is_cut_by_bytes_and_cleaned(message: str) -> None:
    decision = Decision(stage=StageKey(StageName.PD), current=1, desired=2, reason=ScalingReason.PANIC, message=message)
    note = scaling_event(decision).note
    assert note.startswith("scaling pd from 1 to 2 replicas: ")
    assert len(note.encode()) <= MAX_NOTE
    assert "\n" not in note
    assert "\x1b" not in note

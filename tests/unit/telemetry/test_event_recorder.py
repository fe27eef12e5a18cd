"""The event recorder merges, limits and drops Events, and never delays a reconcile."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, FencedError, NotFoundError, RefusedError, UnavailableError
from epd_operator.objects.identity import Identity, Key
from epd_operator.objects.kinds import Kind
from epd_operator.plan.status.status_events import Action, EventType, StatusEvent
from epd_operator.telemetry.event_recorder import (
    MAX_KNOWN,
    MAX_WAITING,
    RATE,
    WINDOW_SECONDS,
    EventOutcome,
    EventRecorder,
)

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Events(Cluster):
    """Keeps Events in memory, and fails on request."""

    def __init__(self) -> None:
        self.created: dict[str, Mapping[str, Any]] = {}
        self.series: dict[str, Mapping[str, Any]] = {}
        self.requests = 0
        self.failure: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def create(self, kind: Kind, *, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]:
        await self._answer()
        name = f"qwen-{len(self.created)}"
        self.created[name] = body
        return {"kind": kind.kind, "metadata": {"name": name, "namespace": namespace}}

    async def patch(self, kind: Kind, *, namespace: str, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        await self._answer()
        if name not in self.created:
            raise NotFoundError("expired", request=f"PATCH {kind.plural} {namespace}", status=404)
        self.series[name] = body["series"]
        return {}

    async def _answer(self) -> None:
        self.requests += 1
        await self.answers.wait()
        if self.failure is not None:
            raise self.failure

    def notes(self) -> list[str]:
        return [body["note"] for body in self.created.values()]


class World:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.cluster = Events()
        self.outcomes: Counter[str] = Counter()
        self.recorder = EventRecorder(
            self.cluster, count=self._count, reporter="pod-1", clock=lambda: self.seconds, now=self._now
        )

    def _now(self) -> datetime:
        return BEGAN + timedelta(seconds=self.seconds)

    def _count(self, _event: StatusEvent, outcome: EventOutcome) -> None:
        self.outcomes[outcome.value] += 1

    async def record(self, *events: StatusEvent, identity: Identity = IDENTITY) -> None:
        """Record Events, and let the task of the recorder run until it waits."""
        for event in events:
            self.recorder.record(identity, event)
        task = asyncio.ensure_future(self.recorder.run())
        for _ in range(20 * (1 + len(events))):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def problem(note: str = "pd 0/1: text", *, kind: EventType = EventType.WARNING) -> StatusEvent:
    return StatusEvent(type=kind, reason="CrashLooping", action=Action.START_PODS, note=note)


@pytest.fixture
def world() -> World:
    return World()


async def test_an_event_has_the_uid_of_the_object_the_reporter_and_the_time(world: World) -> None:
    await world.record(problem())
    (body,) = world.cluster.created.values()
    assert body["regarding"]["uid"] == "u-1"
    assert body["metadata"]["namespace"] == "serving"
    assert (body["type"], body["reason"], body["action"]) == ("Warning", "CrashLooping", "StartPods")
    assert body["reportingInstance"] == "pod-1"
    assert body["eventTime"] == "2026-01-01T00:00:00.000000Z"


async def test_a_repeated_event_increases_the_count_of_the_existing_one(world: World) -> None:
    for _ in range(3):
        await world.record(problem())
        world.seconds += 60
    assert len(world.cluster.created) == 1
    assert world.cluster.series == {"qwen-0": {"count": 3, "lastObservedTime": "2026-01-01T00:02:00.000000Z"}}
    assert world.outcomes == {"written": 1, "merged": 2}


@pytest.mark.parametrize(
    ("event", "identity"),
    [
        (problem("pd 0/1: others"), IDENTITY),
        (problem(kind=EventType.NORMAL), IDENTITY),
        (problem(), Identity(name="qwen", namespace="serving", uid="u-2")),
    ],
)
async def test_a_different_event_is_written_separately(world: World, event: StatusEvent, identity: Identity) -> None:
    await world.record(problem())
    await world.record(event, identity=identity)
    assert world.outcomes == {"written": 2}


async def test_a_series_ends_after_a_time_without_repetition(world: World) -> None:
    for _ in range(3):
        await world.record(problem())
        world.seconds += WINDOW_SECONDS
    assert len(world.cluster.created) == 1
    world.seconds += 1
    await world.record(problem())
    assert len(world.cluster.created) == 2


async def test_an_expired_event_is_written_again(world: World) -> None:
    await world.record(problem())
    world.cluster.created.clear()
    await world.record(problem())
    assert len(world.cluster.created) == 1
    assert world.outcomes == {"written": 2}


async def test_events_of_a_flapping_pod_are_limited_and_do_not_suppress_those_of_other_objects(world: World) -> None:
    await world.record(*(problem(f"note {number}") for number in range(100)))
    assert len(world.cluster.created) == RATE.burst
    assert world.outcomes["dropped"] == 100 - RATE.burst
    await world.record(problem("good news", kind=EventType.NORMAL))
    await world.record(problem("another"), identity=Identity(name="other", namespace="serving", uid="u-9"))
    world.seconds += RATE.every
    await world.record(problem("later"), problem("too soon"))
    assert world.cluster.notes()[RATE.burst :] == ["good news", "another", "later"]


async def test_events_above_the_limit_are_counted_in_the_series(world: World) -> None:
    await world.record(*(problem() for _ in range(50)))
    world.seconds += RATE.every
    await world.record(problem())
    assert world.cluster.requests == RATE.burst + 1
    assert world.cluster.series["qwen-0"]["count"] == 51


@pytest.mark.parametrize(
    ("failure", "outcome", "logged"),
    [
        (UnavailableError("down", request="CREATE", status=503), "failed", "an Event could not be written"),
        (RefusedError("forbidden", request="CREATE", status=403), "failed", "an Event could not be written"),
        (RuntimeError("a mistake"), "failed", "an Event could not be written"),
        (FencedError("not sent", request="CREATE"), "dropped", ""),
        (NotFoundError("no such namespace", request="CREATE", status=404), "dropped", ""),
        (
            RefusedError("forbidden: unable to create new content in namespace serving because it is being terminated",
                         request="CREATE", status=403),
            "dropped",
            "",
        ),
    ],
)  # fmt: skip
async def test_a_failed_write_is_counted_and_does_not_stop_the_recorder(
    world: World, failure: ClusterError, outcome: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.cluster.failure = failure
    await world.record(problem())
    assert world.outcomes == {outcome: 1}
    assert (logged in caplog.text) if logged else (caplog.text == "")
    world.cluster.failure = None
    await world.record(problem())
    assert world.outcomes["written"] == 1


async def test_recording_never_waits_and_events_above_the_limit_are_dropped(world: World) -> None:
    world.cluster.answers.clear()
    for number in range(MAX_WAITING + 10):
        world.recorder.record(IDENTITY, problem(f"note {number}"))
    assert world.outcomes == {"dropped": 10}
    await world.record()
    assert world.cluster.requests == 1
    # Events that waited when the task ended are dropped. The one that was being written counts as neither.
    assert world.outcomes == {"dropped": 10 + MAX_WAITING - 1}


async def test_waiting_events_of_a_deleted_object_are_dropped(world: World) -> None:
    other = Identity(name="other", namespace="serving", uid="u-2")
    world.recorder.record(IDENTITY, problem("gone"))
    world.recorder.record(other, problem("there"))
    world.recorder.forget(Key("serving", "qwen"))
    await world.record()
    assert world.cluster.notes() == ["there"]
    assert world.outcomes == {"dropped": 1, "written": 1}


async def test_the_memory_of_the_recorder_is_bounded(world: World) -> None:
    for number in range(MAX_KNOWN + 10):
        await world.record(problem(), identity=Identity(name="qwen", namespace="serving", uid=str(number)))
    assert world.outcomes == {"written": MAX_KNOWN + 10}
    kept = [len(held) for held in vars(world.recorder).values() if isinstance(held, OrderedDict | deque)]
    assert sorted(kept) == [0, MAX_KNOWN]

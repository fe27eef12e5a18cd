"""How often Events of pods are read, of which pods, and what follows if they cannot be read."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from epd_operator.cluster.errors import ClusterError, RefusedError, UnavailableError
from epd_operator.cluster.pod_events import PODS_OF_A_STAGE, PodEvents
from epd_operator.objects.identity import Identity, Key
from epd_operator.plan.observation import Observation
from support.memory import MemoryCluster

KEY = Key("serving", "qwen")
START = datetime(2026, 1, 1, tzinfo=UTC)
IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def pod(number: int = 0, *, since: float = 0, stage: str = "worker") -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(since).isoformat()}
    labels = {"app.kubernetes.io/component": stage}
    return {
        "metadata": {"name": f"p{number}", "namespace": "serving", "uid": f"pod-{number}", "labels": labels},
        "status": {"phase": "Pending", "conditions": [scheduled]},
    }


def started(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


class Fixture:
    """A cluster with one Event of each pod, and the reader."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self.reader = PodEvents(self.cluster)
        for number in range(20):
            self.say(f"first about {number}", number=number)

    def say(self, message: str, *, number: int = 0) -> None:
        self.cluster.objects["Event", f"e{number}"] = {
            "involvedObject": {"uid": f"pod-{number}"}, "reason": "FailedMount", "message": message,
            "source": {"component": "kubelet"}, "lastTimestamp": at(number).isoformat(),
        }  # fmt: skip

    async def read(self, *pods: dict[str, Any], seconds: float) -> tuple[list[str], float | None]:
        observation = Observation(identity=IDENTITY, generation=1, pods=pods)
        events, again = await self.reader.read(KEY, observation=observation, now=at(seconds))
        return [event.message for event in events], again

    @property
    def uids(self) -> list[str]:
        return [query["fieldSelector"].removeprefix("involvedObject.uid=") for query in self.cluster.queries]


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


async def test_a_pod_that_has_just_been_scheduled_is_left_alone_and_looked_at_again_when_it_is_late(
    fixture: Fixture,
) -> None:
    assert await fixture.read(pod(), seconds=4) == ([], 11)
    assert fixture.cluster.queries == []
    assert await fixture.read(pod(), seconds=15) == (["first about 0"], 30)
    assert fixture.uids == ["pod-0"]


async def test_a_pod_is_read_once_in_each_interval_and_less_often_the_longer_it_waits(fixture: Fixture) -> None:
    for second in range(3600):
        await fixture.read(pod(), seconds=second)
    assert 25 < len(fixture.cluster.queries) < 45
    _, again = await fixture.read(pod(), seconds=86_400)
    assert again == 300


async def test_between_two_readings_the_last_one_stays_so_that_status_rests(fixture: Fixture) -> None:
    await fixture.read(pod(), seconds=20)
    fixture.say("second")
    assert await fixture.read(pod(), seconds=30) == (["first about 0"], 20)
    assert await fixture.read(pod(), seconds=50) == (["second"], 30)


async def test_a_clock_that_was_set_back_by_a_day_does_not_stop_the_readings(fixture: Fixture) -> None:
    await fixture.read(pod(), seconds=90_000)
    _, again = await fixture.read(pod(), seconds=3_600)
    assert again is not None
    assert again <= 300


async def test_of_each_stage_only_the_pods_that_have_waited_longest_are_read(fixture: Fixture) -> None:
    waiting = [pod(number, since=-number) for number in range(9)]
    others = [pod(number, since=-number, stage="frontend") for number in range(10, 19)]
    messages, _ = await fixture.read(*waiting, *others, seconds=60)
    assert PODS_OF_A_STAGE == 2
    assert sorted(fixture.uids) == ["pod-17", "pod-18", "pod-7", "pod-8"]
    assert messages == [f"first about {number}" for number in (7, 8, 17, 18)]
    assert {(query["limit"], query["resourceVersion"]) for query in fixture.cluster.queries} == {("100", "0")}


async def test_pods_that_have_started_are_not_read_and_nothing_is_kept_of_them(fixture: Fixture) -> None:
    await fixture.read(pod(), seconds=20)
    assert await fixture.read(started(pod()), seconds=25) == ([], None)
    fixture.say("second")
    assert await fixture.read(pod(), seconds=26) == (["second"], 30)
    fixture.reader.forget(KEY)
    fixture.reader.forget(KEY)
    assert await fixture.read(seconds=27) == ([], None)


@pytest.mark.parametrize("error", [RefusedError, UnavailableError])
async def test_events_that_cannot_be_read_fail_nothing_and_those_read_before_stay(
    fixture: Fixture, error: type[ClusterError], caplog: pytest.LogCaptureFixture
) -> None:
    await fixture.read(pod(), seconds=20)
    fixture.cluster.failures["LIST", "Event"] = error("events is forbidden", request="LIST", status=403)
    with caplog.at_level(logging.WARNING):
        assert await fixture.read(pod(), pod(1, since=10), seconds=60) == (["first about 0"], 30)
        assert await fixture.read(pod(), pod(1, since=10), seconds=600) == (["first about 0"], 59)
    assert len(caplog.records) == (error is RefusedError)
    fixture.cluster.failures.clear()
    assert (await fixture.read(pod(), seconds=900))[0] == ["first about 0"]


async def test_an_answer_without_a_list_of_events_is_no_event(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def odd(*_: Any, **__: Any) -> dict[str, Any]:
        return {"items": {"a": 1}}

    monkeypatch.setattr(fixture.cluster, "list_page", odd)
    assert await fixture.read(pod(), seconds=20) == ([], 30)

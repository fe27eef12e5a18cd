"""The comparison of two revisions that share the traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from epd_operator.loads.targets import Target
from epd_operator.objects.identity import COMPONENT_LABEL, REVISION_LABEL, Identity, Key
from epd_operator.plan.observation import Answered, Comparison, Observation
from epd_operator.plan.rollout.revisions import Revision, Rollout
from epd_operator.plan.rollout.shares import Share, ShareState, StepMark
from epd_operator.plan.rollout.steps import Phase
from epd_operator.verification.comparer import INTERVAL_SECONDS, Comparer

KEY = Key("serving", "qwen")
IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")


def pod(name: str, revision: str, *, ready: bool = True) -> dict[str, Any]:
    labels = {COMPONENT_LABEL: "frontend", REVISION_LABEL: revision}
    status = {"podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


PODS = (pod("new-0", "new"), pod("old-0", "old"), pod("old-1", "old"), pod("late", "old", ready=False))


def sharing(index: int = 0, *, is_open: bool = True) -> Rollout:
    mark = StepMark(index=index, since=datetime(2026, 1, 1, tzinfo=UTC))
    share = Share(state=ShareState.SHARED, mark=mark, is_open=is_open)
    new, old = Revision(name="new", spec=None), Revision(name="old", spec=None)
    return Rollout(target=new, serving=old, phase=Phase.SHARING, share=share)


class World:
    """A comparer, and the numbers on the pages."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.pages = {"new-0": Answered(requests=3, failed=3), "old-0": Answered(requests=500, failed=50)}
        self.pages["old-1"] = Answered()
        self.read: list[list[str]] = []
        self.enqueued: list[Key] = []
        self.comparer = Comparer(read=self._read, enqueue=self.enqueued.append, clock=lambda: self.clock)

    async def _read(self, targets: Sequence[Target]) -> Mapping[str, Answered]:
        self.read.append([target.pod for target in targets])
        return {target.pod: self.pages[target.pod] for target in targets if target.pod in self.pages}

    def update(self, rollout: Rollout) -> None:
        observation = Observation(identity=IDENTITY, generation=1, pods=PODS)
        self.comparer.update(KEY, rollout=rollout, observation=observation)

    async def round(self) -> Comparison | None:
        for key in self.comparer._claim_due():
            await self.comparer._run_round(key)
        self.clock += INTERVAL_SECONDS
        return self.comparer.comparison(KEY, identity=IDENTITY)

    def answer(self, pod: str, *, requests: int, failed: int = 0) -> None:
        before = self.pages[pod]
        self.pages[pod] = Answered(requests=before.requests + requests, failed=before.failed + failed)


async def test_only_requests_of_the_step_count_and_a_worse_revision_is_reported_once() -> None:
    world = World()
    world.update(sharing())
    assert await world.round() == Comparison(revision="new", new=Answered(), old=Answered())
    assert world.read == [["new-0", "old-0", "old-1"]]
    world.answer("new-0", requests=40, failed=10)
    world.answer("old-0", requests=200, failed=1)
    world.answer("old-1", requests=200)
    expected = Comparison(revision="new", new=Answered(requests=40, failed=10), old=Answered(requests=400, failed=1))
    assert await world.round() == expected
    assert await world.round() == expected
    assert world.enqueued == [KEY]


async def test_each_step_is_counted_by_itself_and_nothing_is_kept_when_the_traffic_is_not_shared() -> None:
    world = World()
    world.update(sharing())
    await world.round()
    world.answer("new-0", requests=40)
    assert (await world.round()) != Comparison(revision="new", new=Answered(), old=Answered())
    world.update(sharing(1))
    assert await world.round() == Comparison(revision="new", new=Answered(), old=Answered())
    world.update(sharing(is_open=False))
    assert await world.round() is None


async def test_a_page_that_cannot_be_read_changes_nothing_and_a_restarted_process_goes_on_counting() -> None:
    world = World()
    world.update(sharing())
    await world.round()
    world.answer("new-0", requests=10, failed=1)
    await world.round()
    del world.pages["new-0"]
    found = await world.round()
    assert found is not None
    assert found.new == Answered(requests=10, failed=1)
    world.pages["new-0"] = Answered(requests=5, failed=2)
    found = await world.round()
    assert found is not None
    assert found.new == Answered(requests=15, failed=3)


async def test_another_object_of_the_same_name_gets_no_result_of_the_first() -> None:
    world = World()
    world.update(sharing())
    await world.round()
    assert world.comparer.comparison(KEY, identity=replace(IDENTITY, uid="u-2")) is None

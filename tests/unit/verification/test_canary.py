"""When the workers of a revision that serves are asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import COMPONENT_LABEL, REVISION_LABEL, Identity, Key
from epd_operator.plan.observation import Findings, Observation
from epd_operator.plan.rollout.revisions import Revision, Rollout
from epd_operator.plan.rollout.steps import Phase
from epd_operator.verification.canary import MAX_ROUNDS, MIN_INTERVAL_SECONDS, Canary
from epd_operator.verification.survey import Subject, subject_of
from support.specs import spec

KEY = Key("serving", "qwen")
IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
REQUEST = {"name": "capital", "messages": [{"text": "Of France?"}], "expect": {"text": {"contains": "Paris"}}}
INTERVAL = 600.0


def asking(**changes: Any) -> EPDDeploymentSpec:
    verification = {"requests": [{**REQUEST, **changes}], "intervalSeconds": int(INTERVAL)}
    return spec(verification=verification)


def pod(name: str, component: str = "pd", *, ready: bool = True, revision: str = "7f3a") -> dict[str, Any]:
    labels = {COMPONENT_LABEL: component, REVISION_LABEL: revision}
    status = {"podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


PODS = (pod("frontend", "frontend"), pod("pd-0"), pod("pd-1"), pod("encoder-0", "encoder"), pod("encoder-1", "encoder"))


def observed(*pods: dict[str, Any]) -> Observation:
    return Observation(identity=IDENTITY, generation=1, pods=pods or PODS)


def serving(wanted: EPDDeploymentSpec | None = None, *, phase: Phase = Phase.NONE, target: str = "7f3a") -> Rollout:
    revision = Revision(name="7f3a", spec=wanted or asking())
    return Rollout(target=replace(revision, name=target), serving=revision, phase=phase)


class World:
    """A canary, with findings that the test chooses."""

    def __init__(self) -> None:
        self.clock = 1000.0
        self.finds = Findings(revision="7f3a", right=("pd-0",))
        self.asked: list[Subject] = []
        self.enqueued: list[Key] = []
        self.canary = Canary(survey=self._survey, enqueue=self.enqueued.append, clock=lambda: self.clock)

    async def _survey(self, subject: Subject) -> Findings:
        self.asked.append(subject)
        return self.finds

    def update(self, found: Rollout | None = None, observation: Observation | None = None) -> None:
        self.canary.update(KEY, rollout=found or serving(), observation=observation or observed())

    async def rounds_in(self, seconds: float) -> list[float]:
        """Let time pass; returns the times of the rounds after now."""
        began, times = self.clock, []
        while self.clock <= began + seconds:
            before = len(self.asked)
            for key in self.canary._claim_due():
                await self.canary._run_round(key)
            times += [self.clock - began] * (len(self.asked) - before)
            self.clock += 1
        return times


def test_ready_workers_of_the_revision_that_serves_are_asked_with_the_number_of_its_encoders() -> None:
    subject = subject_of(serving(), observation=observed(*PODS, pod("new", ready=False), pod("old", revision="beef")))
    assert subject is not None
    assert [worker.pod for worker in subject.asked.workers] == ["pd-0", "pd-1"]
    assert (subject.asked.encoders, subject.interval) == (2, INTERVAL)


@pytest.mark.parametrize(("scope", "encoders"), [("Pod", 3), ("Deployment", 6)])
def test_each_worker_of_a_group_is_asked_once_per_encoder_that_it_uses(scope: str, encoders: int) -> None:
    group = {"pool": "gb200", "encoder": {"count": 3, "scope": scope}}
    wanted = spec("CoLocated", group=group, verification={"requests": [REQUEST]})
    ports = [{"name": f"system-{slot}", "containerPort": 9090 + slot} for slot in range(4)]
    groups = [{**pod(f"group-{n}", "group"), "spec": {"containers": [{"name": "pd", "ports": ports}]}} for n in (0, 1)]
    subject = subject_of(serving(wanted), observation=observed(pod("frontend", "frontend"), *groups))
    assert subject is not None
    assert subject.asked.encoders == encoders


def test_nothing_is_asked_during_a_rollout_without_known_answers_or_without_workers() -> None:
    assert subject_of(serving(phase=Phase.PAUSED), observation=observed()) is None
    assert subject_of(serving(target="beef"), observation=observed()) is None
    assert subject_of(serving(spec()), observation=observed()) is None
    assert subject_of(serving(), observation=observed(pod("frontend", "frontend"))) is None


async def test_workers_are_asked_at_once_and_then_at_the_interval() -> None:
    world = World()
    world.update()
    assert await world.rounds_in(2 * INTERVAL) == [0, INTERVAL, 2 * INTERVAL]
    assert world.enqueued == [KEY], "the same result causes no further reconcile"
    assert world.canary.findings(KEY, identity=IDENTITY) == world.finds


async def test_new_pods_are_asked_soon_but_not_more_often_than_once_a_minute() -> None:
    world = World()
    world.update()
    await world.rounds_in(0)
    for number in range(5):
        world.update(observation=observed(*PODS, pod(f"new-{number}")))
    assert await world.rounds_in(INTERVAL / 2) == [MIN_INTERVAL_SECONDS - 1]


async def test_other_questions_and_other_objects_are_asked_at_once_and_earlier_results_do_not_count() -> None:
    world = World()
    world.update()
    await world.rounds_in(0)
    assert world.canary.findings(KEY, identity=replace(IDENTITY, uid="u-2")) is None
    world.update(serving(asking(expect={"text": {"contains": "Rome"}})))
    assert world.canary.findings(KEY, identity=IDENTITY) is None
    assert await world.rounds_in(0) == [0]


async def test_a_result_is_forgotten_when_a_rollout_begins() -> None:
    world = World()
    world.update()
    await world.rounds_in(0)
    world.update(serving(target="beef"))
    assert world.canary.findings(KEY, identity=IDENTITY) is None


async def test_few_objects_are_asked_at_the_same_time() -> None:
    world = World()
    for number in range(3 * MAX_ROUNDS):
        world.canary.update(Key("serving", f"qwen-{number}"), rollout=serving(), observation=observed())
    assert len(world.canary._claim_due()) == MAX_ROUNDS
    assert world.canary._claim_due() == []


async def test_an_error_in_a_round_stops_nothing() -> None:
    world = World()
    world.update()

    async def fail(_: Subject) -> Findings:
        raise RuntimeError("bug")

    world.canary._survey = fail
    assert await world.rounds_in(1) == []
    assert world.canary._running == set()

"""When revisions are asked, and what happens with the results."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import COMPONENT_LABEL, REVISION_LABEL, Identity, Key
from epd_operator.plan.observation import Observation, Verdict
from epd_operator.plan.rollout.revisions import Revision, Rollout
from epd_operator.plan.rollout.steps import Phase
from epd_operator.verification.candidate import MAX_FRONTENDS, Candidate, candidate_of
from epd_operator.verification.verifier import FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS, Verifier
from support.specs import spec

KEY = Key("serving", "qwen")
IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")


def frontend(name: str = "f", *, revision: str = "7f3a", ready: bool = True, ip: Any = "10.0.0.7") -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    labels = {COMPONENT_LABEL: "frontend", REVISION_LABEL: revision}
    return {"metadata": {"name": name, "labels": labels}, "status": {"podIP": ip, "conditions": conditions}}


def observed(*pods: dict[str, Any], uid: str = "u-1") -> Observation:
    return Observation(identity=replace(IDENTITY, uid=uid), generation=1, pods=pods)


def rollout(wanted: EPDDeploymentSpec | None = None, *, phase: Phase = Phase.VERIFYING, name: str = "7f3a") -> Rollout:
    return Rollout(
        target=Revision(name=name, spec=wanted or spec()), serving=Revision(name="", spec=spec()), phase=phase
    )


class World:
    """A verifier, with answers that the test chooses."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.passes = True
        self.asked: list[Candidate] = []
        self.enqueued: list[Key] = []
        self.verifier = Verifier(ask=self._ask, enqueue=self.enqueued.append, clock=lambda: self.clock)

    async def _ask(self, candidate: Candidate) -> Verdict:
        self.asked.append(candidate)
        return Verdict(revision=candidate.asked.revision, passed=self.passes, message="asked")

    def update(self, found: Rollout, observation: Observation | None = None) -> None:
        self.verifier.update(KEY, rollout=found, observation=observation or observed(frontend()))

    async def tick(self) -> None:
        for key in self.verifier._claim_due():
            await self.verifier._run_round(key)


def test_ready_frontends_of_the_new_revision_are_asked_for_the_model_that_clients_use() -> None:
    pods = [frontend("old", revision="initial"), frontend("new"), frontend("starting", ready=False)]
    found = candidate_of(rollout(), observation=observed(*pods))
    assert found is not None
    assert [(f.pod, f.url) for f in found.asked.frontends] == [("new", "http://10.0.0.7:8000/v1/chat/completions")]
    assert (found.asked.model, found.needs_pictures) == ("qwen-vl", True)


def test_addresses_that_cannot_belong_to_a_pod_are_not_asked() -> None:
    for ip in ("127.0.0.1", "169.254.169.254", "not an address", None, 7):
        assert candidate_of(rollout(), observation=observed(frontend(ip=ip))) is None


def test_no_more_than_a_few_frontends_are_asked() -> None:
    found = candidate_of(rollout(), observation=observed(*(frontend(f"f{n}") for n in range(9))))
    assert found is not None
    assert len(found.asked.frontends) == MAX_FRONTENDS


def test_an_aggregated_revision_may_have_a_model_without_pictures() -> None:
    found = candidate_of(rollout(spec("Aggregated")), observation=observed(frontend()))
    assert found is not None
    assert not found.needs_pictures


async def test_a_revision_is_asked_once_if_it_answers_and_the_result_causes_a_reconcile() -> None:
    world = World()
    world.update(rollout())
    await world.tick()
    world.update(rollout())
    world.clock += 1000
    await world.tick()
    assert len(world.asked) == 1
    assert world.enqueued == [KEY]
    assert world.verifier.verdict(KEY, identity=IDENTITY) == Verdict(revision="7f3a", passed=True, message="asked")


async def test_a_revision_that_does_not_answer_is_asked_again_after_longer_and_longer_waits() -> None:
    world, times = World(), []
    world.passes = False
    world.update(rollout())
    for _ in range(600):
        before = len(world.asked)
        await world.tick()
        if len(world.asked) > before:
            times.append(world.clock)
        world.clock += 1
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert waits[0] == FIRST_RETRY_SECONDS
    assert waits == sorted(waits)
    assert waits[-1] == LAST_RETRY_SECONDS
    assert world.enqueued == [KEY], "the same result causes no further reconcile"


async def test_the_result_of_one_revision_or_object_says_nothing_about_another() -> None:
    world = World()
    world.update(rollout())
    await world.tick()
    assert world.verifier.verdict(KEY, identity=replace(IDENTITY, uid="u-2")) is None
    world.update(rollout(name="beef"), observed(frontend(revision="beef")))
    assert world.verifier.verdict(KEY, identity=IDENTITY) is None
    await world.tick()
    assert [candidate.asked.revision for candidate in world.asked] == ["7f3a", "beef"]


async def test_a_revision_that_is_not_to_be_asked_any_more_is_forgotten() -> None:
    world = World()
    world.update(rollout())
    world.update(rollout(phase=Phase.STARTING))
    await world.tick()
    assert world.asked == []
    assert world.verifier.verdict(KEY, identity=IDENTITY) is None


async def test_an_error_in_the_request_is_asked_again_and_stops_nothing() -> None:
    world = World()
    world.update(rollout())

    async def fail(_: Candidate) -> Verdict:
        raise RuntimeError("bug")

    world.verifier._ask = fail
    await world.tick()
    assert world.verifier._running == set()
    assert world.verifier._claim_due() == [], "not again at once"


async def test_other_questions_are_asked_at_once_because_the_earlier_result_says_nothing_about_them() -> None:
    world = World()
    world.passes = False
    question = {"name": "capital", "messages": [{"text": "Of France?"}], "expect": {"text": {"contains": "Rome"}}}
    world.update(rollout(spec(verification={"requests": [question]})))
    await world.tick()
    question["expect"] = {"text": {"contains": "Paris"}}
    world.update(rollout(spec(verification={"requests": [question]})))
    assert world.verifier.verdict(KEY, identity=IDENTITY) is None
    await world.tick()
    assert len(world.asked) == 2

"""Workers that answer wrongly, in the condition Ready."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from epd_operator.objects.identity import COMPONENT_LABEL, INITIAL_REVISION, REVISION_LABEL, Identity
from epd_operator.plan.observation import Findings, Observation
from epd_operator.plan.planner import make_plan
from epd_operator.plan.redaction import Redactor
from epd_operator.plan.status.builder import status_of
from support.specs import spec
from support.world import NOW, World

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
FAULT = 'request capital, "Of France?": expected the text "Paris", got "Rome"'


def pod(name: str) -> dict[str, Any]:
    labels = {COMPONENT_LABEL: "pd", REVISION_LABEL: INITIAL_REVISION}
    ready = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Running", "conditions": ready}}


def observed(findings: Findings, *pods: str) -> Observation:
    """A ready object with some of its pods."""
    world = World(IDENTITY)
    for _ in range(20):
        world.apply(make_plan(spec(), observation=world.observation()))
        world.step()
    return replace(world.observation(), findings=findings, pods=tuple(map(pod, pods)))


def conditions(observation: Observation) -> dict[str, tuple[str, str, str]]:
    found = status_of(spec(), plan=make_plan(spec(), observation=observation), observation=observation, now=NOW)
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in found["conditions"]}


def test_a_wrong_worker_is_named_with_the_command_that_replaces_it_and_requests_are_still_answered() -> None:
    findings = Findings(revision=INITIAL_REVISION, right=("a", "b"), wrong={"c": FAULT})
    found = conditions(observed(findings, "a", "b", "c"))
    assert found["Ready"] == (
        "False",
        "WrongAnswers",
        f"1 of 3 workers answer wrongly, for example pod c ({FAULT}); 2 answer right: replace it with kubectl delete "
        "pod c",
    )
    assert found["Available"][0] == "True"


def test_if_no_worker_answers_right_none_should_be_replaced() -> None:
    findings = Findings(revision=INITIAL_REVISION, wrong={"a": FAULT, "b": FAULT})
    _, reason, message = conditions(observed(findings, "a", "b"))["Ready"]
    assert reason == "WrongAnswers"
    assert "2 of 2 workers answer wrongly" in message
    assert "kubectl" not in message


def test_a_wrong_answer_without_a_culprit_is_reported() -> None:
    findings = Findings(revision=INITIAL_REVISION, right=("a",), doubtful="1 of 2 answers of pod b: got Rome")
    _, reason, message = conditions(observed(findings, "a", "b"))["Ready"]
    assert (reason, "1 of 2 answers of pod b" in message) == ("WrongAnswers", True)


def test_a_worker_that_was_replaced_and_another_revision_are_not_reported() -> None:
    for findings in (
        Findings(revision=INITIAL_REVISION, right=("a",), wrong={"gone": FAULT}),
        Findings(revision="7f3a", wrong={"a": FAULT}),
    ):
        assert conditions(observed(findings, "a"))["Ready"][1] == "AllStagesReady"


def test_an_answer_with_a_secret_of_the_spec_is_redacted() -> None:
    raw = {"runtime": {"env": [{"name": "API_TOKEN", "value": "s3cret-value"}]}}
    findings = Findings(revision="", wrong={"a": "got s3cret-value"}, doubtful="got s3cret-value")
    seen = Redactor.of(raw).redact_observation(observed(findings)).findings
    assert seen is not None
    assert "s3cret" not in str(seen)

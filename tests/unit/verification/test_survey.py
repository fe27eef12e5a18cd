"""Which workers of the revision that serves answer wrongly: real HTTP servers stand for frontends and pages."""

from __future__ import annotations

from typing import Any

import pytest

from epd_operator.plan.observation import Findings
from epd_operator.verification.requests import Question
from epd_operator.verification.survey import Subject, survey
from support.verification_servers import CIRCLE, EQUALS, Revision, known, served

WRONG = 'request shape, "What is it?": expected the text "red circle", got "blue square"'
COMPARED = known(logProbabilities={"tolerance": "0.05"})


async def found(revision: Revision, questions: tuple[Question, ...] = EQUALS, **asked: Any) -> Findings:
    async with served(revision):
        return await survey(Subject(asked=revision.as_asked(**asked), questions=questions, interval=900))


async def test_a_worker_that_answers_wrongly_twice_is_named_and_the_others_are_right() -> None:
    revision = Revision("red circle", "blue square", "red circle")
    assert await found(revision) == Findings(revision="7f3a", right=("pd-0", "pd-2"), wrong={"pd-1": WRONG})
    assert revision.asked == [0, 1, 2, 1]


async def test_a_wrong_answer_that_is_not_repeated_names_no_worker() -> None:
    revision = Revision("red circle", "red circle")
    revision.slips = {1: 1}
    findings = await found(revision)
    assert (findings.right, findings.wrong) == (("pd-0",), {})
    assert findings.doubtful.startswith("1 of 2 answers of pod pd-1 to request shape")


async def test_a_worker_that_is_wrong_with_some_encoders_only_is_not_blamed() -> None:
    revision = Revision("red circle", "red circle")
    revision.slips = {0: 1, 1: 1}
    findings = await found(revision, known(messages=[CIRCLE], text={"equals": "red circle"}), encoders=3)
    assert revision.asked == [0, 0, 0, 1, 1, 1]
    assert (findings.wrong, findings.doubtful[:19]) == ({}, "1 of 3 answers of p")


async def test_probabilities_are_compared_with_those_of_most_other_workers() -> None:
    revision = Revision("red circle", "red circle", "red circle", logprob=-0.1)
    revision.logprobs = {2: -0.4}
    findings = await found(revision, COMPARED)
    assert (findings.right, list(findings.wrong)) == (("pd-0", "pd-1"), ["pd-2"])
    assert "the answer of most other workers" in findings.wrong["pd-2"]


async def test_of_two_workers_with_different_probabilities_none_is_right() -> None:
    revision = Revision("red circle", "red circle", logprob=-0.1)
    revision.logprobs = {1: -0.4}
    findings = await found(revision, COMPARED)
    assert (findings.right, list(findings.wrong)) == ((), ["pd-0", "pd-1"])


async def test_one_worker_alone_has_no_probabilities_to_compare_with() -> None:
    assert (await found(Revision("red circle", logprob=-0.1), COMPARED)).right == ("pd-0",)


@pytest.mark.parametrize("change", [{"has_numbers": False}, {"tells": False}, {"status": 503}])
async def test_workers_that_cannot_be_addressed_or_do_not_answer_are_neither_right_nor_wrong(change: Any) -> None:
    assert await found(Revision("blue square", "blue square", **change)) == Findings(revision="7f3a")

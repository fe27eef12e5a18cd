"""Requests with known answers, to real HTTP servers that stand for frontends and for pages of workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.targets import Target
from epd_operator.plan.observation import Verdict
from epd_operator.verification.ask import MAX_REQUESTS, ask, attempts
from epd_operator.verification.candidate import Asked, Candidate
from epd_operator.verification.instances import instance_in
from epd_operator.verification.requests import Question
from support.verification_servers import CIRCLE, EQUALS, Revision, known, served

PAGES = Path(__file__).parents[1] / "loads" / "pages"


async def verdict_on(
    new: Revision, questions: tuple[Question, ...], *, old: Revision | None = None, encoders: int = 0
) -> Verdict:
    async with served(*filter(None, (new, old))):
        candidate = Candidate(
            asked=new.as_asked(encoders=encoders),
            needs_pictures=True,
            questions=questions,
            reference=old.as_asked(name="") if old is not None else None,
        )
        return await ask(candidate)


async def test_each_worker_answers_each_question_and_the_verdict_counts_the_requests() -> None:
    new = Revision("red circle", " red circle\n")
    verdict = await verdict_on(new, EQUALS)
    assert new.asked == [0, 1]
    assert verdict.passed
    assert verdict.message == "requests with text and picture were answered, and 2 with known answers as expected"


async def test_one_worker_with_a_wrong_answer_fails_the_revision_with_question_expected_and_got() -> None:
    verdict = await verdict_on(Revision("red circle", "blue square"), EQUALS)
    assert not verdict.passed
    assert verdict.message == (
        'request shape, "What is it?" to pod pd-1: expected the text "red circle", got "blue square"'
    )


async def test_a_question_with_a_picture_is_asked_once_per_encoder_and_one_with_text_once() -> None:
    new = Revision("red circle", "red circle")
    await verdict_on(new, known(messages=[CIRCLE], text={"equals": "red circle"}), encoders=3)
    assert new.asked == [0, 1] * 3
    new = Revision("red circle", "red circle")
    await verdict_on(new, EQUALS, encoders=3)
    assert new.asked == [0, 1]


async def test_workers_without_numbers_are_asked_in_turn() -> None:
    new = Revision("red circle", "blue square", has_numbers=False)
    verdict = await verdict_on(new, EQUALS)
    assert new.asked == [None, None]
    assert not verdict.passed
    assert "to pod frontend-0: expected" in verdict.message


@pytest.mark.parametrize(("logprob", "passes"), [(-0.12, True), (-0.4, False)])
async def test_probabilities_are_compared_with_those_of_the_revision_that_serves(logprob: float, passes: bool) -> None:
    questions = known(logProbabilities={"tolerance": "0.05"})
    new, old = Revision("red circle", logprob=logprob), Revision("red circle", logprob=-0.1)
    verdict = await verdict_on(new, questions, old=old)
    assert old.asked == [None]
    assert verdict.passed == passes
    assert passes or 'for token 1, "red circle", differ by 0.300' in verdict.message


async def test_a_revision_that_serves_but_does_not_answer_holds_up_nothing(unused_tcp_port: int) -> None:
    new, old = Revision("red circle", logprob=-0.1), Revision("red circle")
    async with served(new):
        old.url = f"http://127.0.0.1:{unused_tcp_port}"
        verdict = await ask(
            Candidate(
                asked=new.as_asked(),
                needs_pictures=True,
                questions=known(logProbabilities={"tolerance": "0"}),
                reference=old.as_asked(),
            )
        )
    assert verdict.passed


async def test_a_revision_that_serves_and_answers_is_not_asked_if_nothing_is_compared() -> None:
    old = Revision("red circle")
    assert (await verdict_on(Revision("red circle"), EQUALS, old=old)).passed
    assert old.asked == []


def test_the_number_of_requests_has_a_limit_but_each_worker_is_asked() -> None:
    (picture,) = known(messages=[CIRCLE], text={"equals": "x"})

    def number(workers: int, encoders: int, among: int) -> int:
        pages = tuple(Target(pod=f"p{n}", stage=StageName.PD, ready=True, url="") for n in range(workers))
        asked = Asked(revision="", model="m", frontends=(), workers=pages, encoders=encoders)
        return attempts(picture, asked, among=among)

    assert number(4, 8, 2) == 8
    assert number(64, 64, 1) == MAX_REQUESTS // 64
    assert number(64, 64, 8) == 1
    assert number(0, 0, 1) == 1


@pytest.mark.parametrize("name", ["pd_busy", "pd_before_images"])
def test_the_number_of_a_worker_is_read_from_a_real_page(name: str) -> None:
    page = (PAGES / f"{name}.txt").read_bytes()
    assert instance_in(page) == 0x1A2B


@pytest.mark.parametrize(
    "labels",
    [
        {"dynamo_endpoint": "generate", "worker_id": "not hexadecimal"},
        {"dynamo_endpoint": "generate", "worker_id": "1" * 17},
        {"dynamo_endpoint": "clear_kv_blocks", "worker_id": "1a2b"},
        {"dynamo_endpoint": "generate"},
    ],
)
def test_a_page_without_a_valid_number_has_none(labels: Mapping[str, str]) -> None:
    text = ",".join(f'{key}="{value}"' for key, value in labels.items())
    assert instance_in(f"dynamo_component_inflight_requests{{{text}}} 0\n".encode()) is None


def test_a_page_with_two_numbers_has_none() -> None:
    lines = [f'dynamo_component_inflight_requests{{dynamo_endpoint="generate",worker_id="{n}"}} 0' for n in "12"]
    assert instance_in("\n".join(lines).encode()) is None

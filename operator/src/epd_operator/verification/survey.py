"""Asks the workers of the revision that serves, to find one that answers wrongly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from epd_operator.api.v1alpha1.verification import Expectation
from epd_operator.loads.fetch import open_session
from epd_operator.plan.observation import Findings, Observation
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.rollout.steps import Phase
from epd_operator.verification.answers import Answer, NoAnswerError, fault_in
from epd_operator.verification.ask import attempts
from epd_operator.verification.candidate import Asked, asked_of
from epd_operator.verification.instances import Worker, read_workers
from epd_operator.verification.requests import Question, known_questions
from epd_operator.verification.send import send

ROUND_SECONDS = 600.0
"""Time limit of a round. What it has found until then counts."""
_OTHER_WORKERS = "most other workers"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A revision that serves, whose workers should be asked.

    Attributes:
        asked: the revision.
        questions: the requests of its spec, whose answers are known.
        interval: seconds between two rounds.
    """

    asked: Asked
    questions: tuple[Question, ...]
    interval: float


def subject_of(rollout: Rollout, *, observation: Observation) -> Subject | None:
    """The revision to ask; None during a rollout, and without known answers or ready pods."""
    spec, name = rollout.serving.spec, rollout.serving.name
    if rollout.phase is not Phase.NONE or rollout.target.name != name or spec is None or spec.verification is None:
        return None
    asked = asked_of(spec, revision=name, observation=observation)
    if not asked.frontends or not asked.workers:
        return None
    questions = known_questions(spec.verification)
    return Subject(asked=asked, questions=questions, interval=spec.verification.interval_seconds)


@dataclass(kw_only=True)
class _Notes:
    """What has been found so far."""

    right: set[str] = field(default_factory=set)
    wrong: dict[str, str] = field(default_factory=dict)
    doubtful: str = ""


async def survey(subject: Subject) -> Findings:
    """Ask each worker. A request that is not answered says nothing: readiness and metrics show such workers."""
    notes = _Notes()
    async with open_session(connections=1) as session:
        try:
            async with asyncio.timeout(ROUND_SECONDS):
                workers = await read_workers(session, subject.asked.workers) or ()
                for question in subject.questions:
                    await _ask_about(session, subject, workers, question, notes=notes)
        except TimeoutError:
            pass
    return Findings(
        revision=subject.asked.revision,
        right=tuple(sorted(notes.right - notes.wrong.keys())),
        wrong=dict(sorted(notes.wrong.items())),
        doubtful=notes.doubtful,
    )


async def _ask_about(
    session: aiohttp.ClientSession, subject: Subject, workers: Sequence[Worker], question: Question, *, notes: _Notes
) -> None:
    """Note which workers answer one question wrongly. One wrong answer is not enough: it is asked again."""
    times = attempts(question, subject.asked, among=len(subject.questions))
    answers = {w.pod: await _answers(session, subject.asked, w, question, times=times) for w in workers}
    for worker in workers:
        faults = _faults(worker.pod, answers, expect=question.expect)
        if faults and all(faults) and len(faults) == 1:
            answers[worker.pod] += await _answers(session, subject.asked, worker, question, times=1)
            faults = _faults(worker.pod, answers, expect=question.expect)
        found = [fault for fault in faults if fault is not None]
        if found and len(found) == len(faults) and len(faults) > 1:
            notes.wrong.setdefault(worker.pod, f"request {question.name}: {found[0]}")
        elif found:
            share = f"{len(found)} of {len(faults)} answers of pod {worker.pod}"
            notes.doubtful = notes.doubtful or f"{share} to request {question.name}: {found[0]}"
        elif faults:
            notes.right.add(worker.pod)


async def _answers(
    session: aiohttp.ClientSession, asked: Asked, worker: Worker, question: Question, *, times: int
) -> list[Answer]:
    """The answers of one worker; not those that another one gave, or for which the frontend does not say who did."""
    found = []
    for _ in range(times):
        try:
            answer = await send(session, asked.frontends[0].url, question, model=asked.model, instance=worker.instance)
        except NoAnswerError:
            continue
        if answer.worker == worker.instance:
            found.append(answer)
    return found


def _faults(pod: str, answers: Mapping[str, Sequence[Answer]], *, expect: Expectation | None) -> list[str | None]:
    """What is wrong with each answer of a worker; None for a right one.

    Log-probabilities are compared with the first answers of the other workers: an answer is wrong if it differs from
    most of them.
    """
    if expect is None:
        return [None for _ in answers[pod]]
    others = [found[0] for other, found in answers.items() if other != pod and found]
    return [_fault(answer, expect=expect, others=others) for answer in answers[pod]]


def _fault(answer: Answer, *, expect: Expectation, others: Sequence[Answer]) -> str | None:
    alone = fault_in(answer, expect=expect, reference=None)
    if alone is not None:
        return alone
    found = [fault_in(answer, expect=expect, reference=other, whose=_OTHER_WORKERS) for other in others]
    return _first(found) if 2 * sum(fault is not None for fault in found) > len(others) else None


def _first(faults: Iterable[str | None]) -> str | None:
    return next((fault for fault in faults if fault is not None), None)

"""Asks a new revision, before it gets the requests of clients."""

from __future__ import annotations

import aiohttp

from epd_operator.loads.fetch import open_session
from epd_operator.plan.observation import Verdict
from epd_operator.verification.answers import Answer, NoAnswerError, fault_in
from epd_operator.verification.candidate import Asked, Candidate
from epd_operator.verification.instances import read_workers
from epd_operator.verification.requests import Question, questions
from epd_operator.verification.send import send

MAX_REQUESTS = 256
"""Requests with known answers in one round, if there are so few workers that one for each is fewer."""


class _WrongError(Exception):
    """A request is not answered, or not as expected; the message says how."""


async def ask(candidate: Candidate) -> Verdict:
    """Send every question, until one is not answered as expected."""
    asked = candidate.asked
    general = questions(needs_pictures=candidate.needs_pictures)
    async with open_session(connections=1) as session:
        try:
            for frontend in asked.frontends:
                for question in general:
                    where = f"request with {question.name} to pod {frontend.pod}"
                    await _send(session, frontend.url, question, model=asked.model, where=where)
            number = await _ask_workers(session, candidate)
        except _WrongError as wrong:
            return Verdict(revision=asked.revision, passed=False, message=str(wrong))
    names = " and ".join(question.name for question in general)
    known = f", and {number} with known answers as expected" if number else ""
    return Verdict(revision=asked.revision, passed=True, message=f"requests with {names} were answered{known}")


async def _ask_workers(session: aiohttp.ClientSession, candidate: Candidate) -> int:
    """Send the questions with known answers to each worker; returns the number of requests.

    Workers that cannot be addressed are asked in turn, as the router decides.

    Raises:
        _WrongError: an answer is not as expected.
    """
    asked, number = candidate.asked, 0
    if not candidate.questions:
        return 0
    workers = await read_workers(session, asked.workers) or (None,) * max(len(asked.workers), 1)
    frontend = asked.frontends[0]
    for question in candidate.questions:
        reference = await _reference(session, candidate.reference, question)
        for worker in workers * attempts(question, asked, among=len(candidate.questions)):
            where = f"request {question.name} to pod {worker.pod if worker is not None else frontend.pod}"
            instance = worker.instance if worker is not None else None
            answer = await _send(session, frontend.url, question, model=asked.model, where=where, instance=instance)
            number += 1
            fault = question.expect and fault_in(answer, expect=question.expect, reference=reference)
            if fault is not None:
                raise _WrongError(f"{where}: {fault}")
    return number


def attempts(question: Question, asked: Asked, *, among: int) -> int:
    """How often each worker gets a question of so many: once per encoder, because it takes these in turn."""
    limit = MAX_REQUESTS // (max(len(asked.workers), 1) * among)
    return max(1, min(asked.encoders, limit)) if question.has_pictures else 1


async def _reference(session: aiohttp.ClientSession, asked: Asked | None, question: Question) -> Answer | None:
    """The answer of the revision that serves; None if it is not needed, or if there is none."""
    if asked is None or not question.is_compared:
        return None
    for frontend in asked.frontends:
        try:
            return await send(session, frontend.url, question, model=asked.model)
        except NoAnswerError:
            continue
    return None


async def _send(
    session: aiohttp.ClientSession,
    url: str,
    question: Question,
    *,
    model: str,
    where: str,
    instance: int | None = None,
) -> Answer:
    """The answer to a question.

    Raises:
        _WrongError: there is none.
    """
    try:
        return await send(session, url, question, model=model, instance=instance)
    except NoAnswerError as error:
        raise _WrongError(f"{where}: {error}") from error

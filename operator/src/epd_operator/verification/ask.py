"""Sends requests to frontends of a revision."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping

import aiohttp

from epd_operator.backends.dynamo import INSTANCE_HEADER
from epd_operator.loads.fetch import open_session
from epd_operator.plan.observation import Verdict
from epd_operator.verification.answers import Answer, NoAnswerError, fault_in, read_answer
from epd_operator.verification.candidate import Asked, Candidate
from epd_operator.verification.instances import Worker, read_workers
from epd_operator.verification.requests import Question, questions

TIMEOUT_SECONDS = 180.0
"""For one request: the first request with a picture may compile kernels."""
MAX_REQUESTS = 256
"""Requests with known answers in one round, if there are so few workers that one for each is fewer."""
_MAX_BYTES = 256 * 1024
_NONCE_BYTES = 8


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

    Raises:
        _WrongError: an answer is not as expected.
    """
    asked, number = candidate.asked, 0
    if not candidate.questions:
        return 0
    workers = await read_workers(session, asked.workers)
    for question in candidate.questions:
        reference = await _reference(session, candidate.reference, question)
        for _ in range(attempts(question, asked, among=len(candidate.questions))):
            async for where, answer in _answers(session, asked, workers, question):
                number += 1
                fault = question.expect and fault_in(answer, expect=question.expect, reference=reference)
                if fault is not None:
                    raise _WrongError(f"{where}: {fault}")
    return number


def attempts(question: Question, asked: Asked, *, among: int) -> int:
    """How often each worker gets a question of so many: once per encoder, because it takes these in turn."""
    limit = MAX_REQUESTS // (max(len(asked.workers), 1) * among)
    return max(1, min(asked.encoders, limit)) if question.has_pictures else 1


async def _answers(
    session: aiohttp.ClientSession, asked: Asked, workers: tuple[Worker, ...] | None, question: Question
) -> AsyncIterator[tuple[str, Answer]]:
    """One answer of each worker, with the request in words; if they cannot be addressed, of as many in turn."""
    frontend = asked.frontends[0]
    for worker in workers or (None,) * max(len(asked.workers), 1):
        of_worker = f" of {worker.pod}" if worker is not None else ""
        where = f"request {question.name} to pod {frontend.pod}{of_worker and ' for an answer' + of_worker}"
        instance = worker.instance if worker is not None else None
        yield (
            where,
            await _send(session, frontend.url, question, model=asked.model, where=where, instance=instance),
        )


async def _reference(session: aiohttp.ClientSession, asked: Asked | None, question: Question) -> Answer | None:
    """The answer of the revision that serves; None if it is not needed, or if there is none."""
    if asked is None or not question.is_compared:
        return None
    for frontend in asked.frontends:
        try:
            return await _send(session, frontend.url, question, model=asked.model, where="")
        except _WrongError:
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
    headers = {"Content-Type": "application/json", **({INSTANCE_HEADER: str(instance)} if instance is not None else {})}
    body = question.body(model=model, nonce=os.urandom(_NONCE_BYTES))
    try:
        return await _post(session, url, question, headers=headers, body=body)
    except NoAnswerError as error:
        fault = str(error)
    except TimeoutError:
        fault = f"no answer within {TIMEOUT_SECONDS:.0f} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        fault = f"no answer: {error}"
    raise _WrongError(f"{where}: {fault}")


async def _post(
    session: aiohttp.ClientSession, url: str, question: Question, *, headers: Mapping[str, str], body: bytes
) -> Answer:
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        session.post(url, data=body, headers=headers, allow_redirects=False) as response,
    ):
        found = bytearray()
        async for chunk in response.content.iter_any():
            found += chunk
            if len(found) > _MAX_BYTES:
                raise NoAnswerError("the answer is too long")
        return read_answer(question, status=response.status, body=bytes(found))

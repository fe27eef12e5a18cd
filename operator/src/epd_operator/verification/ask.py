"""Sends requests to frontends of a revision."""

from __future__ import annotations

import asyncio

import aiohttp

from epd_operator.loads.fetch import open_session
from epd_operator.plan.observation import Verdict
from epd_operator.verification.candidate import Candidate
from epd_operator.verification.requests import Question, fault_of, questions

TIMEOUT_SECONDS = 180.0
"""For one request: the first request with a picture may compile kernels."""
_MAX_BYTES = 256 * 1024


async def ask(candidate: Candidate) -> Verdict:
    """Send every question to each of the candidate's frontends, until one is not answered."""
    asked = questions(model=candidate.model, needs_pictures=candidate.needs_pictures)
    async with open_session(connections=1) as session:
        for frontend in candidate.frontends:
            for question in asked:
                fault = await _ask(session, frontend.url, question)
                if fault is not None:
                    message = f"request with {question.name} to pod {frontend.pod}: {fault}"
                    return Verdict(revision=candidate.revision, passed=False, message=message)
    names = " and ".join(question.name for question in asked)
    return Verdict(revision=candidate.revision, passed=True, message=f"requests with {names} were answered")


async def _ask(session: aiohttp.ClientSession, url: str, question: Question) -> str | None:
    """Why there is no answer; None if there is one."""
    headers = {"Content-Type": "application/json"}
    try:
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            session.post(url, data=question.body, headers=headers, allow_redirects=False) as response,
        ):
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > _MAX_BYTES:
                    return "the answer is too long"
            return fault_of(question, status=response.status, body=bytes(body))
    except TimeoutError:
        return f"no answer within {TIMEOUT_SECONDS:.0f} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return f"no answer: {error}"

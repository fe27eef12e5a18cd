"""Sends one request to a frontend."""

from __future__ import annotations

import asyncio
import os

import aiohttp

from epd_operator.backends.dynamo import INSTANCE_HEADER
from epd_operator.verification.answers import Answer, NoAnswerError, read_answer
from epd_operator.verification.requests import Question

TIMEOUT_SECONDS = 180.0
"""For one request: the first request with a picture may compile kernels."""
_MAX_BYTES = 256 * 1024
_NONCE_BYTES = 8


async def send(
    session: aiohttp.ClientSession, url: str, question: Question, *, model: str, instance: int | None = None
) -> Answer:
    """The answer to a question.

    Args:
        session: see `open_session`.
        url: of the frontend.
        question: the question.
        model: name of the model that clients use.
        instance: number of the worker that must answer; None: any.

    Raises:
        NoAnswerError: there is none.
    """
    headers = {"Content-Type": "application/json", **({INSTANCE_HEADER: str(instance)} if instance is not None else {})}
    body = question.body(model=model, nonce=os.urandom(_NONCE_BYTES))
    try:
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
    except TimeoutError:
        raise NoAnswerError(f"no answer within {TIMEOUT_SECONDS:.0f} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise NoAnswerError(f"no answer: {error}") from error

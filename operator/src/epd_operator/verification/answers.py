"""Answers to the requests of the operator, and whether they are as expected. Answers are untrusted."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import re2

from epd_operator.api.untyped import items, mapping
from epd_operator.api.v1alpha1.verification import Expectation, ExpectedText
from epd_operator.objects.text import one_line
from epd_operator.verification.requests import Question

MAX_QUOTED = 160
"""Longest quotation of an expected text or an answer, in characters."""
_MAX_TOKENS = 256
_MAX_CANDIDATES = 20
_REFUSALS = (400, 404, 415, 422)
"""HTTP statuses with which a frontend or an engine refuses pictures as such."""


class NoAnswerError(Exception):
    """There is no answer; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Token:
    """One token of an answer.

    Attributes:
        text: the token.
        candidates: natural logarithms of the probabilities of the most probable tokens, and of the token itself.
    """

    text: str
    candidates: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer of the model.

    Attributes:
        text: its text, without white space around it.
        tokens: its tokens; empty if probabilities were not asked for.
        worker: the Dynamo instance that has answered; None if the frontend does not say.
    """

    text: str = ""
    tokens: tuple[Token, ...] = field(default=())
    worker: int | None = None


def read_answer(question: Question, *, status: int, body: bytes) -> Answer:
    """The answer in the body of an HTTP answer.

    Raises:
        NoAnswerError: the question is not answered.
    """
    if question.may_be_refused and status in _REFUSALS:
        return Answer()
    if status != 200:
        raise NoAnswerError(f"HTTP {status}: {one_line(_error_in(body))}")
    try:
        answer = mapping(json.loads(body))
    except (ValueError, RecursionError):
        raise NoAnswerError(
            f"the answer is not JSON: {one_line(body.decode(errors='replace'), limit=MAX_QUOTED)}"
        ) from None
    choices = items(answer.get("choices"))
    if not choices or not (message := mapping(choices[0].get("message"))):
        raise NoAnswerError("the answer has no message")
    content = message.get("content")
    worker = mapping(mapping(answer.get("nvext")).get("worker_id")).get("decode_worker_id")
    return Answer(
        text=content.strip() if isinstance(content, str) else "",
        tokens=tuple(_tokens(choices[0]))[:_MAX_TOKENS],
        worker=worker if isinstance(worker, int) else None,
    )


def _tokens(choice: Mapping[str, Any]) -> Iterator[Token]:
    for token in items(mapping(choice.get("logprobs")).get("content")):
        known = [token, *items(token.get("top_logprobs"))[:_MAX_CANDIDATES]]
        candidates = {str(c.get("token")): value for c in known if (value := _logarithm(c.get("logprob"))) is not None}
        yield Token(text=str(token.get("token")), candidates=candidates)


def _logarithm(value: Any) -> float | None:
    """The value if it can be the logarithm of a probability."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and -1e6 < value <= 0 and math.isfinite(value) else None


def _error_in(body: bytes) -> str:
    """The message of an error, as Dynamo and OpenAI write it; otherwise the body."""
    text = body.decode(errors="replace")
    try:
        answer = mapping(json.loads(text))
    except (ValueError, RecursionError):
        return text
    message = mapping(answer.get("error")).get("message") or answer.get("message")
    return message if isinstance(message, str) else text


def fault_in(
    answer: Answer, *, expect: Expectation, reference: Answer | None, whose: str = "the revision that serves"
) -> str | None:
    """What is wrong with an answer; None if it is as expected.

    Args:
        answer: the answer.
        expect: what is expected.
        reference: an answer to the same question, whose log-probabilities are expected; None if there is none.
        whose: who gave the reference.
    """
    if expect.text is not None and not _fulfils(answer.text, expect.text):
        return f"expected {_described(expect.text)}, got {_quoted(answer.text)}"
    if expect.log_probabilities is None or reference is None:
        return None
    tolerance = float(expect.log_probabilities.tolerance)
    fault = next(_differences(answer.tokens, reference.tokens, tolerance=tolerance), None)
    if fault is None:
        return None
    return (
        f"expected the probabilities of {_quoted(reference.text)}, the answer of {whose}, got {_quoted(answer.text)}: "
        f"{fault}"
    )


def _fulfils(text: str, expected: ExpectedText) -> bool:
    if expected.equals is not None:
        return text == expected.equals.strip()
    if expected.contains is not None:
        return expected.contains.strip() in text
    options = re2.Options()
    options.log_errors = False
    try:
        # RE2 takes time in proportion to the text. The re of Python can take exponential time.
        return re2.search(expected.matches or "", text, options) is not None
    except (re2.error, ValueError):  # the API server accepts no such pattern
        return False


def _described(expected: ExpectedText) -> str:
    if expected.equals is not None:
        return f"the text {_quoted(expected.equals)}"
    if expected.contains is not None:
        return f"a text that contains {_quoted(expected.contains)}"
    return f"a text that matches {_quoted(expected.matches or '')}"


def _quoted(text: str) -> str:
    return f'"{one_line(text, limit=MAX_QUOTED)}"'


def _differences(ours: tuple[Token, ...], theirs: tuple[Token, ...], *, tolerance: float) -> Iterator[str]:
    """Where two answers differ by more than the tolerance.

    At each token, all candidates that both answers have are compared. If the answers have different tokens, each of
    the two must be among the candidates of the other, as probable as there. After it, they are answers to different
    texts, so that nothing is left to compare.
    """
    if not ours or not theirs:
        yield "an answer has no probabilities"
    for number, (mine, other) in enumerate(zip_longest(ours, theirs), start=1):
        if mine is None or other is None:
            yield f"one has {len(ours)} tokens, the other {len(theirs)}"
            return
        for token in {mine.text, other.text}:
            if token not in mine.candidates or token not in other.candidates:
                yield f"token {number} is {_quoted(mine.text)} instead of {_quoted(other.text)}"
                return
        shared = mine.candidates.keys() & other.candidates.keys()
        largest = max(shared, key=lambda token: (abs(mine.candidates[token] - other.candidates[token]), token))
        difference = abs(mine.candidates[largest] - other.candidates[largest])
        if difference > tolerance:
            yield f"the logarithms for token {number}, {_quoted(largest)}, differ by {difference:.3f}"
            return
        if mine.text != other.text:
            return

"""Which answers are as expected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.api.v1alpha1.verification import Expectation
from epd_operator.verification.answers import Answer, NoAnswerError, Token, fault_in, read_answer
from epd_operator.verification.requests import Question, questions

TEXT, PICTURE = questions(needs_pictures=True)
GOOD = {"choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "length"}]}


def fault_of(question: Question, *, status: int, body: bytes) -> str | None:
    try:
        read_answer(question, status=status, body=body)
    except NoAnswerError as error:
        return str(error)
    return None


def test_a_message_is_an_answer_even_if_it_is_empty() -> None:
    assert read_answer(TEXT, status=200, body=json.dumps(GOOD).encode()).text == "Hello"
    empty = {"choices": [{"message": {"role": "assistant", "content": None}}]}
    assert read_answer(TEXT, status=200, body=json.dumps(empty).encode()) == Answer()


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (503, {"error": {"message": "no instances"}}, "HTTP 503: no instances"),
        (500, {"message": "engine died"}, "HTTP 500: engine died"),
        (404, "model not found", "HTTP 404: "),
        (200, {"choices": []}, "the answer has no message"),
        (200, [], "the answer has no message"),
        (302, {}, "HTTP 302: "),
    ],
)
def test_everything_else_is_none_and_is_quoted(status: int, body: object, fault: str) -> None:
    assert str(fault_of(TEXT, status=status, body=json.dumps(body).encode())).startswith(fault)


@pytest.mark.parametrize("status", [400, 415, 422])
def test_only_a_topology_without_encoders_may_have_a_model_that_takes_no_pictures(status: int) -> None:
    _, optional = questions(needs_pictures=False)
    assert fault_of(optional, status=status, body=b"{}") is None
    assert fault_of(PICTURE, status=status, body=b"{}") is not None
    assert fault_of(optional, status=503, body=b"{}") is not None


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000])
@pytest.mark.parametrize("status", [200, 500])
def test_a_deeply_nested_answer_is_none(status: int, body: bytes) -> None:
    assert fault_of(TEXT, status=status, body=body) is not None


@given(st.integers(100, 599), st.binary(max_size=600) | st.text(max_size=200).map(str.encode), st.booleans())
def test_a_hostile_answer_never_raises_and_its_quotation_is_short_and_on_one_line(
    status: int, body: bytes, refusable: bool
) -> None:
    fault = fault_of(Question(name="q", messages=(), may_be_refused=refusable), status=status, body=body)
    assert fault is None or (len(fault) < 700 and "\n" not in fault)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["token", "logprob"]), inner),
    max_leaves=9,
)


@given(json_values, json_values, json_values, json_values)
def test_hostile_probabilities_and_numbers_of_workers_never_raise(text: Any, top: Any, logprob: Any, who: Any) -> None:
    token = {"token": text, "logprob": logprob, "top_logprobs": [top, {"token": text, "logprob": logprob}]}
    choice = {"message": {"content": text, "role": "assistant"}, "logprobs": {"content": [token, top]}}
    body = {"choices": [choice], "nvext": {"worker_id": {"decode_worker_id": who}}}
    answer = read_answer(TEXT, status=200, body=json.dumps(body).encode())
    expect = Expectation.model_validate({"text": {"matches": "x"}, "logProbabilities": {"tolerance": "0.1"}})
    fault = fault_in(answer, expect=expect, reference=answer)
    assert fault is None or (len(fault) < 700 and "\n" not in fault)


def expecting(**text: str) -> Expectation:
    return Expectation.model_validate({"text": text})


@pytest.mark.parametrize(
    ("expect", "right", "wrong"),
    [
        (expecting(equals="red circle"), "red circle", "a red circle"),
        (expecting(equals=" red circle\n"), "red circle", "Red circle"),
        (expecting(contains="circle"), "a red circle.", "a red square."),
        (expecting(matches="(?i)^paris"), "Paris, France", "In Paris"),
        (expecting(matches="[0-9]+$"), "it is 42", "it is forty-two"),
    ],
)
def test_a_text_is_compared_as_the_spec_says(expect: Expectation, right: str, wrong: str) -> None:
    assert fault_in(Answer(text=right), expect=expect, reference=None) is None
    fault = fault_in(Answer(text=wrong), expect=expect, reference=None)
    assert fault is not None
    assert fault.startswith("expected ")
    assert fault.endswith(f'got "{wrong}"')


@pytest.mark.timeout(60)
def test_no_pattern_takes_exponential_time_and_one_that_is_none_matches_nothing() -> None:
    for pattern in ("(a+)+$", "^(a|a)*$", "("):
        answer = Answer(text="a" * 50_000 + "b")
        assert fault_in(answer, expect=expecting(matches=pattern), reference=None) is not None


def test_expected_and_got_are_shortened_and_on_one_line() -> None:
    answer = Answer(text="got\n\x1b[31m" + "g" * 5000)
    fault = str(fault_in(answer, expect=expecting(equals="e" * 4000), reference=None))
    assert len(fault) < 400
    assert fault.isprintable()


def answer_of(*tokens: tuple[str, Mapping[str, float]]) -> Answer:
    return Answer(text="".join(t for t, _ in tokens), tokens=tuple(Token(text=t, candidates=c) for t, c in tokens))


def compared(ours: Answer, theirs: Answer, tolerance: str = "0.1") -> str | None:
    expect = Expectation.model_validate({"logProbabilities": {"tolerance": tolerance}})
    return fault_in(ours, expect=expect, reference=theirs)


RED = answer_of(("red", {"red": -0.10, "blue": -2.50}), (" circle", {" circle": -0.20, " square": -1.90}))


def test_small_differences_of_probabilities_are_tolerated_and_larger_ones_are_named_with_their_token() -> None:
    near = answer_of(("red", {"red": -0.15, "blue": -2.45}), (" circle", {" circle": -0.29, " square": -1.85}))
    assert compared(near, RED) is None
    assert 'for token 2, "circle", differ by 0.090' in str(compared(near, RED, tolerance="0.08"))


def test_another_token_is_tolerated_only_if_both_answers_found_both_about_as_probable() -> None:
    even = answer_of(("red", {"red": -0.70, "blue": -0.71}), (" circle", {" circle": -0.1}))
    other = answer_of(("blue", {"red": -0.71, "blue": -0.70}), (" square", {" square": -0.1}))
    assert compared(other, even) is None
    blue = answer_of(("blue", {"red": -2.5, "blue": -0.1}))
    assert compared(blue, RED) is not None
    unknown = answer_of(("green", {"green": -0.1, "blue": -2.5}))
    assert 'token 1 is "green" instead of "red"' in str(compared(unknown, RED))


def test_an_answer_that_is_longer_or_has_no_probabilities_is_not_as_expected() -> None:
    assert "one has 1 tokens, the other 2" in str(compared(answer_of(("red", {"red": -0.1})), RED))
    assert "no probabilities" in str(compared(Answer(text="red circle"), RED))


def test_without_an_answer_to_compare_with_probabilities_are_not_compared() -> None:
    expect = Expectation.model_validate({"logProbabilities": {"tolerance": "0"}})
    assert fault_in(Answer(text="anything"), expect=expect, reference=None) is None

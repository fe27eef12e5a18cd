"""What a new revision is asked, and what counts as an answer."""

from __future__ import annotations

import base64
import json
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.verification.requests import Question, fault_of, questions

TEXT, PICTURE = questions(model="qwen-vl", needs_pictures=True)
GOOD = {"choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "length"}]}


def test_text_comes_first_and_then_a_picture_that_programs_can_read() -> None:
    assert [TEXT.name, PICTURE.name] == ["text", "picture"]
    request = json.loads(PICTURE.body)
    assert (request["model"], request["stream"]) == ("qwen-vl", False)
    url = request["messages"][0]["content"][1]["image_url"]["url"]
    png = base64.b64decode(url.removeprefix("data:image/png;base64,"))
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    start = png.index(b"IDAT") + 4
    assert len(zlib.decompress(png[start:-16])) == height * (1 + 3 * width)


def test_a_message_is_an_answer_even_if_it_is_empty() -> None:
    assert fault_of(TEXT, status=200, body=json.dumps(GOOD).encode()) is None
    empty = {"choices": [{"message": {"role": "assistant", "content": None}}]}
    assert fault_of(TEXT, status=200, body=json.dumps(empty).encode()) is None


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
    _, optional = questions(model="qwen", needs_pictures=False)
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
    fault = fault_of(Question(name="q", body=b"", may_be_refused=refusable), status=status, body=body)
    assert fault is None or (len(fault) < 700 and "\n" not in fault)

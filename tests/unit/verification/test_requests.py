"""What a revision is asked."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from typing import Any

import pytest
from PIL import Image

from epd_operator.api.v1alpha1.verification import Verification
from epd_operator.verification.requests import known_questions, questions

TEXT, PICTURE = questions(needs_pictures=True)


def verification(**changes: Any) -> Verification:
    request = {"name": "r", "messages": [{"text": "What?"}], "expect": {"text": {"equals": "x"}}, **changes}
    return Verification.model_validate({"requests": [request]})


def picture_in(body: bytes) -> str:
    return str(json.loads(body)["messages"][0]["content"][0]["image_url"]["url"])


def test_text_comes_first_and_then_a_picture_that_programs_can_read() -> None:
    assert [TEXT.name, PICTURE.name] == ["text", "picture"]
    request = json.loads(PICTURE.body(model="qwen-vl"))
    assert (request["model"], request["stream"]) == ("qwen-vl", False)
    png = base64.b64decode(picture_in(PICTURE.body(model="qwen-vl")).removeprefix("data:image/png;base64,"))
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    start = png.index(b"IDAT") + 4
    assert len(zlib.decompress(png[start:-16])) == height * (1 + 3 * width)


def test_a_known_question_has_its_messages_its_limit_and_temperature_0() -> None:
    messages = [
        {"role": "system", "text": "Be short."},
        {"text": "What is it?", "images": ["data:image/png;base64,AAAA", "https://example.test/cat.png"]},
    ]
    (question,) = known_questions(verification(messages=messages, maxTokens=7))
    request = json.loads(question.body(model="m"))
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert [part["type"] for part in request["messages"][1]["content"]] == ["image_url", "image_url", "text"]
    assert (request["max_tokens"], request["temperature"], "logprobs" in request) == (7, 0, False)
    assert question.has_pictures
    assert question.name == 'r, "What is it?"'


def test_probabilities_are_asked_for_only_if_they_are_compared() -> None:
    (question,) = known_questions(verification(expect={"logProbabilities": {"tolerance": "0.1"}}))
    request = json.loads(question.body(model="m"))
    assert (request["logprobs"], request["top_logprobs"]) == (True, 5)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_each_request_has_another_file_of_the_same_picture_so_that_no_cache_of_embeddings_answers(form: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 0, 0)).save(file, format=form)
    url = f"data:image/{form.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
    (question,) = known_questions(verification(messages=[{"text": "What?", "images": [url]}]))
    one, other = (picture_in(question.body(model="m", nonce=nonce)) for nonce in (b"1234", b"5678"))
    assert len({one, other, url}) == 3
    decoded = [Image.open(io.BytesIO(base64.b64decode(u.partition(",")[2]))).tobytes() for u in (url, one, other)]
    assert decoded[0] == decoded[1] == decoded[2]


@pytest.mark.parametrize("url", ["https://example.test/cat.png", "data:image/png;base64,A"])
def test_a_picture_that_is_no_file_in_base64_is_sent_as_it_is(url: str) -> None:
    (question,) = known_questions(verification(messages=[{"text": "What?", "images": [url]}]))
    assert picture_in(question.body(model="m", nonce=b"1234")) == url


def test_a_spec_without_known_answers_has_no_questions() -> None:
    assert known_questions(None) == ()

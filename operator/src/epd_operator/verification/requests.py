"""What a new revision is asked, and what counts as an answer."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epd_operator.api.untyped import items, mapping
from epd_operator.objects.text import one_line

_MAX_TOKENS = 8
_PICTURE_PIXELS = 224
"""Side of the picture: the input size of most vision encoders, so that no processor refuses it as too small."""
_REFUSALS = (400, 404, 415, 422)
"""HTTP statuses with which a frontend or an engine refuses pictures as such."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One request.

    Attributes:
        name: what is asked, in messages.
        body: body of the request, in JSON.
        may_be_refused: whether a refusal counts as an answer, because the model may take no pictures.
    """

    name: str
    body: bytes
    may_be_refused: bool = False


def questions(*, model: str, needs_pictures: bool) -> tuple[Question, ...]:
    """A request with text, and one with a picture.

    Args:
        model: name of the model that clients use.
        needs_pictures: whether the revision has encoders, so its model takes pictures.
    """
    text = {"type": "text", "text": "Answer with one word."}
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_picture()}"}}
    return (
        Question(name="text", body=_body(model, text)),
        Question(name="picture", body=_body(model, text, picture), may_be_refused=not needs_pictures),
    )


def _body(model: str, *content: Mapping[str, Any]) -> bytes:
    request = {
        "model": model,
        "messages": [{"role": "user", "content": list(content)}],
        "max_tokens": _MAX_TOKENS,
        "temperature": 0,
        "stream": False,
    }
    return json.dumps(request).encode()


def _picture() -> str:
    """A grey square as PNG, in base64: https://www.w3.org/TR/png-3/."""
    rows = (b"\0" + b"\x80" * _PICTURE_PIXELS * 3) * _PICTURE_PIXELS
    header = struct.pack(">IIBBBBB", _PICTURE_PIXELS, _PICTURE_PIXELS, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return base64.b64encode(png).decode()


def fault_of(question: Question, *, status: int, body: bytes) -> str | None:
    """Why the answer is none; None if the question is answered. The answer is untrusted."""
    if question.may_be_refused and status in _REFUSALS:
        return None
    if status != 200:
        return f"HTTP {status}: {one_line(_error_in(body))}"
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return f"the answer is not JSON: {one_line(body.decode(errors='replace'), limit=128)}"
    choices = items(mapping(answer).get("choices"))
    if not choices or not mapping(choices[0].get("message")):
        return "the answer has no message"
    return None


def _error_in(body: bytes) -> str:
    """The message of an error, as Dynamo and OpenAI write it; otherwise the body."""
    text = body.decode(errors="replace")
    try:
        answer = mapping(json.loads(text))
    except (ValueError, RecursionError):
        return text
    message = mapping(answer.get("error")).get("message") or answer.get("message")
    return message if isinstance(message, str) else text

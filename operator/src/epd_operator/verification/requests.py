"""What a revision is asked."""

from __future__ import annotations

import base64
import binascii
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from epd_operator.api.v1alpha1.verification import Expectation, Message, Role, Verification, VerificationRequest
from epd_operator.backends.dynamo import TELL_WORKER
from epd_operator.objects.text import one_line

_MAX_TOKENS = 8
_CANDIDATES = 5
"""Most probable tokens that are compared for each token of an answer."""
_MAX_QUOTED = 100
_PICTURE_PIXELS = 224
"""Side of the picture: the input size of most vision encoders, so that no processor refuses it as too small."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One request.

    Attributes:
        name: what is asked, in messages.
        messages: messages of the chat.
        max_tokens: maximum length of the answer.
        expect: what the answer must fulfil; None: any answer will do.
        may_be_refused: whether a refusal counts as an answer, because the model may take no pictures.
    """

    name: str
    messages: tuple[Message, ...]
    max_tokens: int = _MAX_TOKENS
    expect: Expectation | None = None
    may_be_refused: bool = False

    @property
    def has_pictures(self) -> bool:
        """Whether encoders are needed for the answer."""
        return any(message.images for message in self.messages)

    @property
    def is_compared(self) -> bool:
        """Whether the answer is compared with that of another revision."""
        return self.expect is not None and self.expect.log_probabilities is not None

    def body(self, *, model: str, nonce: bytes = b"") -> bytes:
        """The body of the request, in JSON.

        Args:
            model: name of the model that clients use.
            nonce: is appended to the files of pictures, so that no cache of embeddings knows them. Decoders ignore
                what follows the picture.
        """
        compared = {"logprobs": True, "top_logprobs": _CANDIDATES} if self.is_compared else {}
        request = {
            "model": model,
            "messages": [
                {"role": message.role or Role.USER, "content": list(_content(message, nonce=nonce))}
                for message in self.messages
            ],
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "stream": False,
            **compared,
            **TELL_WORKER,
        }
        return json.dumps(request).encode()


def _content(message: Message, *, nonce: bytes) -> Iterator[Mapping[str, Any]]:
    for image in message.images or ():
        yield {"type": "image_url", "image_url": {"url": _with_nonce(image, nonce)}}
    yield {"type": "text", "text": message.text}


def _with_nonce(image: str, nonce: bytes) -> str:
    head, separator, data = image.partition(";base64,")
    if not nonce or not separator:
        return image
    try:
        file = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return image
    return f"{head}{separator}{base64.b64encode(file + nonce).decode()}"


def questions(*, needs_pictures: bool) -> tuple[Question, ...]:
    """A request with text, and one with a picture, which every model can answer somehow.

    Args:
        needs_pictures: whether the revision has encoders, so its model takes pictures.
    """
    text = "Answer with one word."
    picture = Message(text=text, images=[f"data:image/png;base64,{_picture()}"])
    return (
        Question(name="text", messages=(Message(text=text),)),
        Question(name="picture", messages=(picture,), may_be_refused=not needs_pictures),
    )


def known_questions(verification: Verification | None) -> tuple[Question, ...]:
    """The requests of the spec, whose answers are known."""
    return tuple(map(_known, verification.requests)) if verification is not None else ()


def _known(request: VerificationRequest) -> Question:
    asked = one_line(request.messages[-1].text, limit=_MAX_QUOTED)
    return Question(
        name=f'{request.name}, "{asked}"',
        messages=tuple(request.messages),
        max_tokens=request.max_tokens,
        expect=request.expect,
    )


def _picture() -> str:
    """A grey square as PNG, in base64: https://www.w3.org/TR/png-3/."""
    rows = (b"\0" + b"\x80" * _PICTURE_PIXELS * 3) * _PICTURE_PIXELS
    header = struct.pack(">IIBBBBB", _PICTURE_PIXELS, _PICTURE_PIXELS, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return base64.b64encode(png).decode()

"""One request to the endpoint, with its answer checked to the end."""

from __future__ import annotations

import http.client
import json
import select
import time
import urllib.parse
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from epd_local import pictures

LIMIT_SECONDS = 300.0
"""After this time a client gives up, and the request has failed."""
_BODY = 2000


class Kind(StrEnum):
    """What is asked."""

    TEXT = "text"
    IMAGE = "image"
    KEPT = "text on a kept connection"
    LONG_TEXT = "long text"
    LONG_IMAGE = "long image"

    @property
    def is_long(self) -> bool:
        """Whether the answer is streamed for many seconds."""
        return self in (Kind.LONG_TEXT, Kind.LONG_IMAGE)

    @property
    def has_picture(self) -> bool:
        """Whether the request carries a picture."""
        return self in (Kind.IMAGE, Kind.LONG_IMAGE)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request that has ended.

    Attributes:
        kind: what was asked.
        sent: when it was sent, in seconds of the monotonic clock.
        ended: when the last byte of its answer came, or it failed.
        fault: why it failed; empty if it was answered.
    """

    kind: Kind
    sent: float
    ended: float
    fault: str = ""


@dataclass(kw_only=True)
class Client:
    """One client with at most one connection.

    Attributes:
        url: of the endpoint, without a path.
        model: name of the model.
        keep: whether the connection is kept for the next request, as libraries for HTTP do.
    """

    url: str
    model: str
    keep: bool = False
    _connection: http.client.HTTPConnection | None = field(default=None, init=False)

    def ask(self, kind: Kind, *, number: int, long_tokens: int) -> Request:
        """Send a request and read its answer to the end. Each number has a picture of its own."""
        subject = pictures.subject(pictures.UNSEEN + number)
        body = _body(kind, model=self.model, subject=subject, long_tokens=long_tokens)
        sent = time.monotonic()
        try:
            fault = self._send(body, kind=kind, subject=subject, long_tokens=long_tokens)
        except (OSError, http.client.HTTPException, ValueError) as error:
            fault = f"{type(error).__name__}: {error}"
        if fault or not self.keep:
            self.close()
        return Request(kind=kind, sent=sent, ended=time.monotonic(), fault=fault)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, body: bytes, *, kind: Kind, subject: pictures.Subject, long_tokens: int) -> str:
        connection = self._connected()
        connection.request("POST", "/v1/chat/completions", body=body, headers={"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            return f"HTTP {response.status}: {response.read(_BODY).decode(errors='replace')}"
        if kind.is_long:
            return stream_fault(response.read().decode(errors="replace"), tokens=long_tokens)
        return answer_fault(json.loads(response.read()), expected=subject.answer if kind.has_picture else "")

    def _connected(self) -> http.client.HTTPConnection:
        """The kept connection, or a new one if the server has closed it: httpx and urllib3 check it in the same way."""
        if self._connection is not None and (
            self._connection.sock is None or select.select([self._connection.sock], [], [], 0)[0]
        ):
            self.close()
        if self._connection is None:
            address = urllib.parse.urlsplit(self.url)
            self._connection = http.client.HTTPConnection(
                str(address.hostname), address.port or 80, timeout=LIMIT_SECONDS
            )
        return self._connection


def _body(kind: Kind, *, model: str, subject: pictures.Subject, long_tokens: int) -> bytes:
    content: list[dict[str, Any]] = [{"type": "text", "text": pictures.QUESTION if kind.has_picture else "Say hello."}]
    if kind.has_picture:
        content.insert(0, {"type": "image_url", "image_url": {"url": pictures.data_url(subject)}})
    request: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": 16,
    }
    if kind.is_long:
        request |= {"max_tokens": long_tokens, "ignore_eos": True}
        request |= {"stream": True, "stream_options": {"include_usage": True}}
    return json.dumps(request).encode()


def answer_fault(answer: Any, *, expected: str) -> str:
    """Why a short answer is wrong; empty if it is right. Without an expected text any text is right."""
    text = str(answer["choices"][0]["message"].get("content") or "").strip()
    if not text or (expected and text != expected):
        return f"answered {text!r} instead of {expected or 'some text'!r}"
    return ""


def stream_fault(stream: str, *, tokens: int) -> str:
    """Why a streamed answer is not complete; empty if it is.

    Args:
        stream: all server-sent events.
        tokens: how many tokens it must have.
    """
    events = [line.removeprefix("data:").strip() for line in stream.splitlines() if line.startswith("data:")]
    if not events or events[-1] != "[DONE]":
        return f"the stream ended after {len(events)} events without [DONE]: {stream[-300:]!r}"
    counted = [json.loads(event).get("usage") for event in events[:-1]]
    usage: dict[str, Any] = next((found for found in reversed(counted) if found), {})
    found = usage.get("completion_tokens")
    return "" if found == tokens else f"the stream has {found} tokens instead of {tokens}: {stream[-300:]!r}"

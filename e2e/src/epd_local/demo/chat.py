"""Requests to the OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epd_local.errors import LocalClusterError

CANDIDATES = 5


class RequestRefusedError(LocalClusterError):
    """The endpoint answered with an error.

    Attributes:
        status: HTTP status; 0 without an answer.
    """

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Answer:
    """The answer of the model.

    Attributes:
        text: the answer.
        candidates: for each token of the answer, the most probable tokens and their log-probabilities.
    """

    text: str
    candidates: tuple[Mapping[str, float], ...] = ()

    def distance(self, other: Answer) -> float:
        """Largest difference of a log-probability between two answers, over candidates that both have."""
        differences = [
            abs(mine[token] - theirs[token])
            for mine, theirs in zip(self.candidates, other.candidates, strict=False)
            for token in mine.keys() & theirs.keys()
        ]
        return max(differences)


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint."""

    url: str
    model: str

    def models(self) -> list[str]:
        """Names of the models that it serves at present."""
        return [str(model["id"]) for model in self._request("/v1/models", None)["data"]]

    def ask(
        self, text: str, *, image: str | None = None, max_tokens: int = 16, timeout: float = 120.0, **options: Any
    ) -> Answer:
        """Ask one question, with or without a picture (data URL); greedy decoding, so that answers can be compared.

        Raises:
            RequestRefusedError: the endpoint answered with an error, or not at all.
        """
        content: list[dict[str, Any]] = [{"type": "text", "text": text}]
        if image is not None:
            content.insert(0, {"type": "image_url", "image_url": {"url": image}})
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": content if image is not None else text}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": CANDIDATES,
            **options,
        }
        choice = self._request("/v1/chat/completions", body, timeout=timeout)["choices"][0]
        tokens = (choice.get("logprobs") or {}).get("content") or []
        return Answer(
            text=(choice["message"].get("content") or "").strip(),
            candidates=tuple({c["token"]: float(c["logprob"]) for c in token["top_logprobs"]} for token in tokens),
        )

    def _request(self, path: str, body: dict[str, Any] | None, *, timeout: float = 120.0) -> Any:
        request = urllib.request.Request(
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            body_text = error.read(2000).decode(errors="replace")
            raise RequestRefusedError(f"{path} returned HTTP {error.code}: {body_text}", status=error.code) from error
        except (urllib.error.URLError, OSError) as error:
            raise RequestRefusedError(f"{path}: {error}", status=0) from error

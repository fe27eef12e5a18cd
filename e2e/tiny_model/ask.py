"""Asks an OpenAI-compatible endpoint that serves the tiny model about unseen pictures.

``python3 ask.py http://localhost:8000 --pictures 60``; exit code 1 below the accuracy wanted. Needs Pillow only.
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from itertools import cycle
from typing import Any, cast

from lessons import QUESTIONS

from epd_local.pictures import Subject, data_url, unseen


def ask(endpoint: str, model: str, content: str | list[dict[str, Any]], *, timeout: float = 120) -> dict[str, Any]:
    """Return the endpoint's answer to one user message, the likeliest token each time.

    Raises:
        urllib.error.URLError: the endpoint did not answer, or refused; the response's body says why.
    """
    body = {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": 24,
        "logprobs": True,
        "top_logprobs": 2,
    }
    request = urllib.request.Request(
        f"{endpoint}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as response:
        return cast("dict[str, Any]", json.load(response)["choices"][0])


def about(what: Subject, question: str) -> list[dict[str, Any]]:
    """Return a user message that holds the picture of *what* and the question."""
    image = {"type": "image_url", "image_url": {"url": data_url(what)}}
    return [image, {"type": "text", "text": question}]


def main() -> int:
    """Print each wrong answer and the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint", help="such as http://localhost:8000")
    parser.add_argument("--model", default="epd-tiny-vl", help="the served name (default: %(default)s)")
    parser.add_argument("--pictures", type=int, default=60)
    parser.add_argument("--start", type=int, default=0, help="number of the first unseen picture")
    parser.add_argument("--wanted", type=float, default=0.95)
    options = parser.parse_args()
    right = 0
    questions = cycle(question for question in QUESTIONS if question)
    for what, question in zip(unseen(options.pictures, start=options.start), questions, strict=False):
        answer = ask(options.endpoint, options.model, about(what, question))["message"]["content"]
        right += answer == what.answer
        if answer != what.answer:
            print(f"  seed {what.seed}, {question!r}: {what.answer!r} answered {answer!r}")
    print(f"{right} of {options.pictures} unseen pictures right (wanted: {options.wanted:.0%})")
    for text in ("Say hello.", "What is the capital of France?"):
        print(f"  {text!r}: {ask(options.endpoint, options.model, text)['message']['content']!r}")
    return int(right < options.wanted * options.pictures)


if __name__ == "__main__":
    raise SystemExit(main())

"""Disaggregated in a network with IPv6 only, and a request with ten photographs."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import plain_pods
import pytest
from PIL import Image
from plain_pods import HTTP_PORT, METRICS_PORT, PlainPods, Reply

from epd_local import pictures
from epd_local.demo.proof import TELEMETRY_PORT, total

MODEL = "epd-tiny-vl"
TOKENS_OF_A_PICTURE = 16
"""A square picture of this size; tests/unit/tiny_model tests that no picture has more."""


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainPods]:
    with PlainPods(folder=tmp_path_factory.mktemp("pods")) as started:
        for name, container in plain_pods.containers("disaggregated").items():
            started.start(name, container)
        yield started


def ask(pods: PlainPods, urls: list[str]) -> Reply:
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    message = {"role": "user", "content": [*parts, {"type": "text", "text": pictures.QUESTION}]}
    body = {"model": MODEL, "messages": [message], "max_tokens": 8, "temperature": 0}
    url = pods.pods["frontend"].url(HTTP_PORT, "/v1/chat/completions")
    return pods.request(url, body=json.dumps(body).encode())


def photograph(number: int) -> str:
    """A JPEG of about 8 MB, as a data URL: noise does not become smaller."""
    image = Image.merge("RGB", [Image.effect_noise((1800, 1800), 100 + number) for _ in range(3)])
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=95, subsampling=0)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def test_the_pods_have_no_ipv4_address_but_loopback(pods: PlainPods) -> None:
    for pod in pods.pods.values():
        found = {word for word in pods.addresses(pod).split() if "/" in word and ":" not in word}
        assert found == {"127.0.0.1/8"}


def test_a_picture_is_answered_and_its_embedding_is_read_from_the_encoder(pods: PlainPods) -> None:
    subject = pictures.Subject(colour="red", shape="circle", seed=pictures.UNSEEN + 77)
    reply = ask(pods, [pictures.data_url(subject)])
    assert reply.status == 200, reply.body
    assert json.loads(reply.body)["choices"][0]["message"]["content"] == subject.answer
    page = pods.request(pods.pods["encoder"].url(METRICS_PORT, "/metrics")).body
    assert total(page, "dynamo_component_requests_total", component="encode") == 1


def test_the_metrics_page_of_nixl_is_on_ipv4_only(pods: PlainPods) -> None:
    """The documentation says so: correct it when this fails."""
    assert pods.request(pods.pods["pd"].url(TELEMETRY_PORT, "/metrics")).status == 0


def test_ten_photographs_in_one_request_are_answered_with_the_defaults_of_the_operator(pods: PlainPods) -> None:
    urls = [photograph(number) for number in range(10)]
    assert 70e6 < sum(len(url) for url in urls) < 150e6
    tokens = []
    for request in (urls[:1], urls):
        reply = ask(pods, request)
        assert reply.status == 200, reply.body[:1000]
        tokens.append(json.loads(reply.body)["usage"]["prompt_tokens"])
    assert tokens[1] - tokens[0] >= 9 * TOKENS_OF_A_PICTURE, tokens

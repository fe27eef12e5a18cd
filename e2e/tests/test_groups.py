"""Two co-located groups: a request goes to the group that has its prefix cached, and images stay in the pod."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import plain_pods
import pytest
from plain_pods import HTTP_PORT, METRICS_PORT, PlainPods

from epd_local import pictures
from epd_local.demo.proof import total

MODEL = "epd-tiny-vl"
GROUPS = ("group-a", "group-b")
ENCODER, PD = METRICS_PORT, METRICS_PORT + 1
FAMILIES = 3
"""More than groups: in turn, a family would not meet the same group again."""
ROUNDS = 4
BLOCK = 128
"""Tokens of a block of the KV cache on a CPU: a prefix is cached in whole blocks."""
MAX_PICTURES = 60


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainPods]:
    changes = {"frontend": {"routing": "KV"}, "group": {"encoder": {"count": 1}}}
    rendered = plain_pods.containers("colocated", changes)
    with PlainPods(folder=tmp_path_factory.mktemp("groups")) as started:
        for pod in [started.begin(name, rendered["group"]) for name in GROUPS]:
            started.wait(pod)
        started.start("frontend", rendered["frontend"])
        yield started


def ask(pods: PlainPods, *parts: dict[str, Any]) -> None:
    message = {"role": "user", "content": list(parts)}
    body = {"model": MODEL, "messages": [message], "max_tokens": 2, "temperature": 0}
    reply = pods.request(pods.pods["frontend"].url(HTTP_PORT, "/v1/chat/completions"), body=json.dumps(body).encode())
    assert reply.status == 200, reply.body


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def picture(number: int) -> dict[str, Any]:
    url = pictures.data_url(pictures.subject(pictures.UNSEEN + number))
    return {"type": "image_url", "image_url": {"url": url}}


def counted(pods: PlainPods, group: str, port: int, metric: str, component: str | None = None) -> float:
    page = pods.request(pods.pods[group].url(port, "/metrics")).body
    return total(page, metric, component=component)


def cached_tokens(pods: PlainPods) -> float:
    return sum(counted(pods, group, PD, "vllm:prefix_cache_hits_total") for group in GROUPS)


@pytest.mark.parametrize("kind", ["text", "image"])
def test_with_kv_routing_every_repeated_prefix_is_found_in_the_cache(pods: PlainPods, kind: str) -> None:
    before = cached_tokens(pods)
    for number in range(ROUNDS):
        for family in range(FAMILIES):
            if kind == "text":
                ask(pods, text(f"Family {family}. " + "word " * (3 * BLOCK) + f"Question {number}."))
            else:
                # The picture is in the first block, so the block of another picture is no hit.
                ask(pods, picture(family), text("word " * (3 * BLOCK) + f"Question {number}."))
    repeated = FAMILIES * (ROUNDS - 1)
    assert cached_tokens(pods) - before >= repeated * 2 * BLOCK


def test_images_are_encoded_in_the_pod_of_the_process_that_needs_them(pods: PlainPods) -> None:
    def counters() -> dict[str, tuple[float, float]]:
        name = "dynamo_component_requests_total"
        return {
            group: (counted(pods, group, ENCODER, name, "encode"), counted(pods, group, PD, name, "backend"))
            for group in GROUPS
        }

    before = counters()
    for number in range(MAX_PICTURES):
        ask(pods, picture(1000 + number), text(pictures.QUESTION))
        after = counters()
        encoded = {group: after[group][0] - before[group][0] for group in GROUPS}
        asked = {group: after[group][1] - before[group][1] for group in GROUPS}
        assert encoded == asked
        if min(asked.values()) >= 3:
            break
    assert min(asked.values()) >= 3, f"one group got no requests: {asked}"

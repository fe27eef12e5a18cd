"""Requests to real HTTP servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from epd_operator.verification import send as sending
from epd_operator.verification.ask import ask
from epd_operator.verification.candidate import Asked, Candidate, FrontendAddress

GOOD = {"choices": [{"message": {"content": "Hello"}}]}


@asynccontextmanager
async def frontend(handler: Any) -> AsyncIterator[str]:
    """URL of a server that answers as the handler does."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1/chat/completions"
    finally:
        await runner.cleanup()


def candidate(*urls: str) -> Candidate:
    frontends = tuple(FrontendAddress(pod=f"pod-{n}", url=url) for n, url in enumerate(urls))
    return Candidate(asked=Asked(revision="7f3a", model="qwen-vl", frontends=frontends), needs_pictures=True)


async def test_every_frontend_is_asked_for_text_and_for_a_picture() -> None:
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(len((await request.json())["messages"][0]["content"]))
        return web.json_response(GOOD)

    async with frontend(answer) as one, frontend(answer) as other:
        verdict = await ask(candidate(one, other))
    assert (verdict.passed, verdict.revision) == (True, "7f3a")
    assert seen == [1, 2, 1, 2]


async def test_the_first_request_without_an_answer_is_named_with_its_pod() -> None:
    async def refuse_pictures(request: web.Request) -> web.Response:
        if b"image_url" in await request.read():
            return web.json_response({"error": {"message": "no encoder"}}, status=503)
        return web.json_response(GOOD)

    async with frontend(refuse_pictures) as url:
        verdict = await ask(candidate(url))
    assert not verdict.passed
    assert verdict.message == "request with picture to pod pod-0: HTTP 503: no encoder"


async def test_a_server_that_nobody_reaches_is_no_answer(unused_tcp_port: int) -> None:
    verdict = await ask(candidate(f"http://127.0.0.1:{unused_tcp_port}/v1/chat/completions"))
    assert not verdict.passed
    assert "no answer" in verdict.message


async def test_a_server_that_does_not_answer_in_time_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{")
        await request.content.read()
        while True:
            await sending.asyncio.sleep(0.01)

    monkeypatch.setattr(sending, "TIMEOUT_SECONDS", 0.05)
    async with frontend(hang) as url:
        verdict = await ask(candidate(url))
    assert not verdict.passed


async def test_an_answer_in_several_pieces_is_read_to_its_end() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for byte in json.dumps(GOOD).encode():
            await response.write(bytes([byte]))
        return response

    async with frontend(answer) as url:
        assert (await ask(candidate(url))).passed


@pytest.mark.parametrize("size", [2**20, 50 * 2**20])
async def test_a_huge_answer_is_not_read_to_its_end(size: int) -> None:
    async def flood(_: web.Request) -> web.Response:
        return web.Response(body=json.dumps(GOOD | {"padding": "x" * size}).encode())

    async with frontend(flood) as url:
        verdict = await ask(candidate(url))
    assert not verdict.passed

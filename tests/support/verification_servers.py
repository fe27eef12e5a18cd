"""Real HTTP servers that stand for the frontends of a revision and for the pages of its workers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.api.v1alpha1.verification import Verification
from epd_operator.loads.targets import Target
from epd_operator.verification.candidate import Asked, FrontendAddress
from epd_operator.verification.requests import Question, known_questions

CIRCLE = {"text": "What is in the picture?", "images": ["data:image/png;base64,AAAA"]}
SHARES = {"red circle": -0.1, "blue square": -2.4}


def known(*, messages: Sequence[Any] = ({"text": "What is it?"},), **expect: Any) -> tuple[Question, ...]:
    request = {"name": "shape", "messages": list(messages), "expect": expect}
    return known_questions(Verification.model_validate({"requests": [request]}))


EQUALS = known(text={"equals": "red circle"})


class Revision:
    """Frontends and workers in one server: worker N is instance 0xa0 + N, with page /N.

    Attributes:
        texts: what each worker answers.
        asked: who was asked to answer the known question, in order; None: any worker.
        has_numbers: whether pages contain the numbers.
        tells: whether answers contain the number of the worker.
        status: HTTP status of answers to the known question.
        logprob: natural logarithm of the probability of the answer; None: not part of it.
        logprobs: the same of single workers.
        slips: how many of its next answers each worker gives wrongly.
    """

    def __init__(
        self,
        *texts: str,
        has_numbers: bool = True,
        tells: bool = True,
        status: int = 200,
        logprob: float | None = None,
    ) -> None:
        self.texts = texts
        self.asked: list[int | None] = []
        self.has_numbers = has_numbers
        self.tells = tells
        self.status = status
        self.logprob = logprob
        self.logprobs: dict[int, float] = {}
        self.slips: dict[int, int] = {}
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        text = str(body["messages"][0]["content"][-1]["text"])
        if "one word" in text:
            return web.json_response({"choices": [{"message": {"content": "Hello"}}]})
        number = request.headers.get("X-Dynamo-Worker-Instance-Id")
        worker = int(number) - 0xA0 if number is not None else None
        self.asked.append(worker)
        who = worker if worker is not None else (len(self.asked) - 1) % len(self.texts)
        text = self.texts[who]
        if self.slips.get(who, 0):
            self.slips[who] -= 1
            text = "blue square"
        choice: dict[str, Any] = {"message": {"content": text}}
        if self.logprob is not None:
            logprob = self.logprobs.get(who, self.logprob)
            candidates = [{"token": t, "logprob": logprob if t == text else v} for t, v in SHARES.items()]
            choice["logprobs"] = {"content": [{"token": text, "logprob": logprob, "top_logprobs": candidates}]}
        told = {"nvext": {"worker_id": {"decode_worker_id": 0xA0 + who}}} if self.tells else {}
        return web.json_response({"choices": [choice], **told}, status=self.status)

    async def page(self, request: web.Request) -> web.Response:
        label = f',worker_id="{0xA0 + int(request.match_info["n"]):x}"' if self.has_numbers else ""
        return web.Response(text=f'dynamo_component_inflight_requests{{dynamo_endpoint="generate"{label}}} 0\n')

    def as_asked(self, *, encoders: int = 0, name: str = "7f3a") -> Asked:
        workers = [
            Target(pod=f"pd-{n}", stage=StageName.PD, ready=True, url=f"{self.url}/{n}") for n in range(len(self.texts))
        ]
        frontend = FrontendAddress(pod="frontend-0", url=f"{self.url}/v1/chat/completions")
        return Asked(revision=name, model="qwen-vl", frontends=(frontend,), workers=tuple(workers), encoders=encoders)


@asynccontextmanager
async def served(*revisions: Revision) -> AsyncIterator[None]:
    runners = []
    for revision in revisions:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", revision.answer)
        app.router.add_get("/{n}", revision.page)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        revision.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        runners.append(runner)
    try:
        yield
    finally:
        for runner in runners:
            await runner.cleanup()

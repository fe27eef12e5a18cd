"""One PD worker: prefill in batches, and continuous batching of decode.

Decode is not simulated token by token. All running requests get one token per step, so the worker has one counter of
tokens that grows by 1 per step; a request ends when the counter reaches a number that is known when it begins. Between
two events all steps have the same length. An event is the end of a prefill, the end of a request, or a change of speed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil
from typing import Any

Action = Callable[[float, Any], None]
Schedule = Callable[[float, Action, Any], None]

_EPSILON = 1e-6
"""Of a token: the counter is a sum of floats."""


class Job:
    """A request inside the model.

    Times, in the order in which they pass: arrived, routed to a PD worker, media_start and media_done (preparation and,
    in an encoder, encoding of its images), pushed into the queue of PD, pd_start of its prefill, first token.
    """

    __slots__ = (
        "arrived", "context", "encode", "engine", "first", "is_counted", "is_media", "media_done", "media_start",
        "missing", "output", "pd_start", "prefill", "prompt", "pushed", "routed",
    )  # fmt: skip

    def __init__(self, *, arrived: float, prompt: int, prefill: float, output: int, is_media: bool) -> None:
        self.arrived = arrived
        self.prompt = prompt
        self.prefill = prefill
        self.output = output
        self.is_media = is_media
        self.context = prompt + output / 2
        self.encode = 0.0
        self.missing = 0
        self.is_counted = True
        # Set on the way, in this order.
        self.engine: Engine
        self.routed: float
        self.media_start: float
        self.media_done: float
        self.pushed: float
        self.pd_start: float
        self.first: float


@dataclass(frozen=True, kw_only=True)
class Busy:
    """Seconds of work of a PD worker."""

    encode: float
    prefill: float
    decode: float


class Engine:
    """The engine of one PD worker.

    Args:
        steps: length of a decode step, by the number of running requests.
        context_seconds: additional length of a step for each token in the KV cache of the running requests.
        max_running: requests that run at the same time.
        max_tokens: tokens that one step prefills.
        schedule: calls an action at a time.
        finished: called at the end of each request.
        speed: length of a step relative to a GPU that is not shared.
    """

    __slots__ = (
        "_batch", "_chunks", "_context", "_context_seconds", "_decoding", "_encoding", "_finished", "_is_ending_step",
        "_last", "_max_running", "_max_tokens", "_number", "_prefilling", "_running", "_schedule", "_step", "_steps",
        "_tokens", "_wake", "slowdown", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        *,
        steps: list[float],
        context_seconds: float,
        max_running: int,
        max_tokens: int,
        schedule: Schedule,
        finished: Callable[[Job, float], None],
        slowdown: float = 1.0,
    ) -> None:
        self.slowdown = slowdown
        self.waiting: deque[Job] = deque()
        self._steps = steps
        self._context_seconds = context_seconds
        self._max_running = max_running
        self._max_tokens = max_tokens
        self._schedule = schedule
        self._finished = finished
        self._running: list[tuple[float, int, Job]] = []
        self._batch: list[Job] = []
        self._chunks = 0
        self._context = 0.0
        self._tokens = 0.0
        self._last = 0.0
        self._number = 0
        self._wake = -1.0
        self._is_ending_step = False
        self._step = 0.0
        self._encoding = self._prefilling = self._decoding = 0.0

    @property
    def busy(self) -> Busy:
        """What the worker has worked on."""
        return Busy(encode=self._encoding, prefill=self._prefilling, decode=self._decoding)

    @property
    def load(self) -> int:
        """Requests that run or wait here."""
        return len(self._running) + len(self._batch) + len(self.waiting)

    @property
    def is_idle(self) -> bool:
        """Whether no step is in progress."""
        return not self._running and not self._batch

    def push(self, now: float, job: Job) -> None:
        """A request is ready for prefill."""
        job.pushed = now
        self.waiting.append(job)
        if self._batch or self._is_ending_step:
            return
        if not self._running:
            self._start_prefill(now)
        elif len(self._running) < self._max_running:
            self._advance(now)
            self._end_step(now)

    def share(self, now: float, change: float) -> None:
        """Encoders on the same GPU have begun or ended their work."""
        if self._batch:
            before = self.slowdown
            self.slowdown += change
            self._wake = now + (self._wake - now) * self.slowdown / before
            self._schedule(self._wake, self._on_wake, self._wake)
        elif self._running:
            self._advance(now)
            self.slowdown += change
            self._set_step()
            if self._is_ending_step:
                self._end_step(now)
            else:
                self._decode(now)
        else:
            self.slowdown += change

    def _advance(self, now: float) -> None:
        """Count the tokens since the last event; `_step` is the length of a step since then."""
        passed = now - self._last
        self._tokens += passed / self._step
        self._decoding += passed
        self._last = now

    def _set_step(self) -> None:
        self._step = (self._steps[len(self._running)] + self._context * self._context_seconds) * self.slowdown

    def _end_step(self, now: float) -> None:
        """Prefill begins when the step in progress ends."""
        self._is_ending_step = True
        rest = ceil(self._tokens - _EPSILON) - self._tokens
        self._wake = now + rest * self._step if rest > 0 else now
        self._schedule(self._wake, self._on_wake, self._wake)

    def _decode(self, now: float) -> None:
        """Only decode until the next request ends."""
        self._last = now
        if self._running:
            rest = self._running[0][0] - self._tokens
            self._wake = now + rest * self._step if rest > 0 else now
            self._schedule(self._wake, self._on_wake, self._wake)

    def _on_wake(self, now: float, wake: float) -> None:
        if wake != self._wake:
            return  # the speed or the plan has changed since
        self._wake = -1.0
        if self._batch:
            self._end_prefill(now)
        else:
            self._advance(now)
            self._tokens = float(round(self._tokens))
            self._is_ending_step = False
        self._end_requests(now)
        if self.waiting and len(self._running) < self._max_running:
            self._start_prefill(now)
        else:
            self._set_step()
            self._decode(now)

    def _start_prefill(self, now: float) -> None:
        batch, waiting = self._batch, self.waiting
        slots = self._max_running - len(self._running)
        tokens, encode, prefill = 0, 0.0, 0.0
        while waiting and len(batch) < slots and (not batch or tokens + waiting[0].prompt <= self._max_tokens):
            job = waiting.popleft()
            job.pd_start = now
            batch.append(job)
            tokens += job.prompt
            encode += job.encode
            prefill += job.prefill
        self._chunks = max(1, ceil(tokens / self._max_tokens))
        steps = self._chunks * (self._steps[len(self._running)] + self._context * self._context_seconds)
        slowdown = self.slowdown
        self._encoding += encode * slowdown
        self._prefilling += prefill * slowdown
        self._decoding += steps * slowdown
        self._wake = now + (encode + prefill + steps) * slowdown
        self._schedule(self._wake, self._on_wake, self._wake)

    def _end_prefill(self, now: float) -> None:
        self._tokens += self._chunks
        for job in self._batch:
            job.first = now
            self._number += 1
            self._context += job.context
            heappush(self._running, (self._tokens + job.output - 1, self._number, job))
        self._batch.clear()

    def _end_requests(self, now: float) -> None:
        running, limit = self._running, self._tokens + _EPSILON
        while running and running[0][0] <= limit:
            job = heappop(running)[2]
            self._context -= job.context
            self._finished(job, now)
        if not running:
            self._tokens = self._context = 0.0

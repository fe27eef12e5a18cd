"""Waits until processes that take no new work have finished the old: a pure decision and the loop around it.

A process is drained when it has been unready for `settle` seconds (the kubelet and Dynamo's routers need that long to
notice) and two readings in a row, both taken after that, found nothing in flight. What cannot be read is not zero.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from epd_worker.spec import Role

READ_INTERVAL = 0.5
ZEROS_NEEDED = 2
# Who sends work to whom: encoders must serve until nobody is left who asks them.
STAGES: tuple[frozenset[Role], ...] = (
    frozenset({Role.FRONTEND}),
    frozenset({Role.PD, Role.WORKER}),
    frozenset({Role.ENCODER}),
)


class Outcome(StrEnum):
    """How the drain of one process ended."""

    DRAINED = "drained"
    NEVER_READY = "never ready"
    GONE = "gone"
    DEADLINE = "deadline"


@dataclass(frozen=True)
class Reading:
    """One look at a process: requests in flight, or None with the reason, or that the process is gone."""

    in_flight: float | None
    reason: str = ""
    gone: bool = False


@dataclass(frozen=True)
class Progress:
    """The drain of one process so far."""

    settle: float
    zeros: int = 0
    outcome: Outcome | None = None
    last: Reading | None = None

    def after(self, reading: Reading, *, unready_for: float) -> Progress:
        """Take a reading made when the process had been unready for so many seconds."""
        if reading.gone:
            return replace(self, outcome=Outcome.GONE, last=reading)
        zeros = self.zeros + 1 if reading.in_flight == 0 and unready_for >= self.settle else 0
        outcome = Outcome.DRAINED if zeros >= ZEROS_NEEDED else None
        return replace(self, zeros=zeros, outcome=outcome, last=reading)


@dataclass(frozen=True)
class Result:
    """The end of one process's drain, for the log and the status page."""

    name: str
    outcome: Outcome
    last: Reading | None
    seconds: float

    def describe(self) -> str:
        """Say in one line how it ended."""
        text = f"{self.name}: {self.outcome} after {self.seconds:.1f} s"
        if self.outcome is Outcome.DEADLINE and self.last is not None:
            left = self.last.reason if self.last.in_flight is None else f"{self.last.in_flight:g} still in flight"
            text = f"{text} ({left})"
        return text


class Target(Protocol):
    """A process as the drain sees it."""

    @property
    def name(self) -> str:
        """The process's name."""

    @property
    def role(self) -> Role:
        """The process's role."""

    def begin_drain(self) -> bool:
        """Make the process unready; return False if it never was ready, so never had work."""

    async def read(self, *, timeout: float) -> Reading:  # noqa: ASYNC109 - the reader bounds its own page
        """Look at the process, within `timeout` seconds."""


@dataclass(frozen=True)
class Drainer:
    """The drain's settings. `timeout` bounds all stages together; all times are seconds of `clock`."""

    timeout: float
    settle: float
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    read_timeout: float = 3.0

    async def drain(self, targets: Sequence[Target]) -> list[Result]:
        """Drain stage after stage; each process stays ready until its stage begins."""
        deadline = self.clock() + self.timeout
        results: list[Result] = []
        for stage in STAGES:
            members = [target for target in targets if target.role in stage]
            results += await asyncio.gather(*(self._drain_one(member, deadline=deadline) for member in members))
        return results

    async def _drain_one(self, target: Target, *, deadline: float) -> Result:
        began = self.clock()
        progress = Progress(settle=self.settle)
        if not target.begin_drain():
            progress = replace(progress, outcome=Outcome.NEVER_READY)
        while progress.outcome is None:
            left = deadline - self.clock()
            if left <= 0:
                progress = replace(progress, outcome=Outcome.DEADLINE)
                break
            unready_for = self.clock() - began
            reading = await target.read(timeout=min(self.read_timeout, left))
            progress = progress.after(reading, unready_for=unready_for)
            if progress.outcome is None:
                await self.sleep(min(READ_INTERVAL, max(deadline - self.clock(), 0.0)))
        outcome = progress.outcome or Outcome.DEADLINE
        return Result(name=target.name, outcome=outcome, last=progress.last, seconds=self.clock() - began)

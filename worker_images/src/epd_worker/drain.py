"""Makes processes unready and waits until they have finished their requests: a pure decision and the loop around it.

A process is drained when it has been unready for `settle` seconds (the kubelet and Dynamo's routers need that long to
detect it) and two readings in a row, both taken after that, found no request in flight and no embedding that waits to
be read. A reading that failed does not count as zero.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from epd_worker.spec import Role

READ_INTERVAL = 0.5
ZEROS_NEEDED = 2
UNREAD_SECONDS = 30.0
"""After this time without a change, nobody reads what waits: Dynamo never releases an embedding whose reader has died
or has given up its request (check_complete in dynamo/vllm/multimodal_handlers/encode_worker_handler.py, 1.6.1)."""
# In the order in which requests pass the processes: encoders must serve until no process sends them requests.
STAGES: tuple[frozenset[Role], ...] = (
    frozenset({Role.FRONTEND}),
    frozenset({Role.PD, Role.WORKER}),
    frozenset({Role.ENCODER}),
)


class DrainOutcome(StrEnum):
    """How the drain of one process ended."""

    DRAINED = "drained"
    NEVER_READY = "never ready"
    ENDED = "process ended"
    TIME_LIMIT = "time limit reached"


@dataclass(frozen=True)
class Reading:
    """One measurement of a process.

    Attributes:
        in_flight: requests in flight; None if they are unknown.
        reason: why they are unknown.
        ended: whether the process has ended.
        unread: bytes of embeddings that other processes have not read yet; None if they are unknown.
    """

    in_flight: float | None
    reason: str = ""
    ended: bool = False
    unread: float | None = 0.0


@dataclass(frozen=True)
class DrainProgress:
    """The drain of one process so far. `unchanged_since`: since when the last reading found the same unread bytes."""

    settle: float
    zeros: int = 0
    outcome: DrainOutcome | None = None
    last: Reading | None = None
    unchanged_since: float = 0.0

    def after(self, reading: Reading, *, unready_for: float) -> DrainProgress:
        """Return the progress after a reading, taken when the process had been unready for `unready_for` seconds."""
        if reading.ended:
            return replace(self, outcome=DrainOutcome.ENDED, last=reading)
        is_same = self.last is not None and self.last.unread == reading.unread
        since = self.unchanged_since if is_same else unready_for
        waits = reading.unread != 0 and unready_for - since < UNREAD_SECONDS
        zeros = self.zeros + 1 if reading.in_flight == 0 and not waits and unready_for >= self.settle else 0
        outcome = DrainOutcome.DRAINED if zeros >= ZEROS_NEEDED else None
        return replace(self, zeros=zeros, outcome=outcome, last=reading, unchanged_since=since)


@dataclass(frozen=True)
class DrainResult:
    """The end of one process's drain, for the log and the status page."""

    name: str
    outcome: DrainOutcome
    last: Reading | None
    seconds: float

    def describe(self) -> str:
        """Describe in one line how it ended."""
        if self.outcome is DrainOutcome.NEVER_READY:
            return f"{self.name}: {self.outcome}"
        text = f"{self.name}: {self.outcome} after {self.seconds:.1f} s"
        remaining = ", ".join(_remaining(self.last)) if self.last is not None else ""
        return f"{text} ({remaining})" if remaining else text


def _remaining(last: Reading) -> Iterator[str]:
    """What the last reading found; nothing if the process had ended."""
    if last.ended:
        return
    if last.in_flight is None:
        yield last.reason
    elif last.in_flight:
        yield f"{last.in_flight:g} request{'' if last.in_flight == 1 else 's'} still in flight"
    if last.unread is None:
        yield "embeddings that nobody has read are not known"
    elif last.unread:
        yield f"{last.unread:.0f} bytes of embeddings that nobody has read"


class DrainTarget(Protocol):
    """A process, as the drain uses it."""

    @property
    def name(self) -> str:
        """The process's name."""

    @property
    def role(self) -> Role:
        """The process's role."""

    def begin_drain(self) -> bool:
        """Make the process unready; return False if it was never ready, and so never had a request."""

    async def read(self, *, timeout: float) -> Reading:  # noqa: ASYNC109 - passed on to the HTTP client
        """Read the requests in flight, within `timeout` seconds."""


@dataclass(frozen=True)
class Drainer:
    """Drains processes. `timeout` limits all stages together; all times are seconds of `clock`."""

    timeout: float
    settle: float
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    read_timeout: float = 3.0

    async def drain(self, targets: Sequence[DrainTarget]) -> list[DrainResult]:
        """Drain stage after stage; each process stays ready until its stage begins."""
        deadline = self.clock() + self.timeout
        results: list[DrainResult] = []
        for stage in STAGES:
            members = [target for target in targets if target.role in stage]
            results += await asyncio.gather(*(self._drain_one(member, deadline=deadline) for member in members))
        return results

    async def _drain_one(self, target: DrainTarget, *, deadline: float) -> DrainResult:
        began = self.clock()
        progress = DrainProgress(settle=self.settle)
        if not target.begin_drain():
            progress = replace(progress, outcome=DrainOutcome.NEVER_READY)
        while progress.outcome is None:
            remaining = deadline - self.clock()
            if remaining <= 0:
                progress = replace(progress, outcome=DrainOutcome.TIME_LIMIT)
                break
            unready_for = self.clock() - began
            reading = await target.read(timeout=min(self.read_timeout, remaining))
            progress = progress.after(reading, unready_for=unready_for)
            if progress.outcome is None:
                await self.sleep(min(READ_INTERVAL, max(deadline - self.clock(), 0.0)))
        outcome = progress.outcome or DrainOutcome.TIME_LIMIT
        return DrainResult(name=target.name, outcome=outcome, last=progress.last, seconds=self.clock() - began)

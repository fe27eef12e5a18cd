"""Work on objects in rounds: the reconciler passes on what to work on, a round finds a result, and the queue learns it.

The base of `Verifier`, `Canary` and `Comparer`. Results are in memory: a new instance of the operator begins again.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from epd_operator.objects.identity import Identity, Key
from epd_operator.telemetry.logs import log_context

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0


@dataclass(kw_only=True)
class Case:
    """One object with something to work on.

    Attributes:
        identity: the object; another object of the same name is another case.
        due: time of the next round.
    """

    identity: Identity
    due: float


CaseT = TypeVar("CaseT", bound=Case)


class Rounds(ABC, Generic[CaseT]):
    """The cases of all objects, and when their rounds are due."""

    error_text: ClassVar[str]
    """What the log says of an unexpected error in a round."""
    max_rounds: ClassVar[int | None] = None
    """Rounds at the same time; None means no limit."""

    def __init__(self, *, enqueue: Callable[[Key], None], clock: Callable[[], float]) -> None:
        self._enqueue = enqueue
        self._clock = clock
        self._cases: dict[Key, CaseT] = {}
        self._running: set[Key] = set()

    @abstractmethod
    async def work(self, key: Key, case: CaseT) -> None:
        """Do one round. It sets ``case.due`` before it waits for anything, so that an error is not repeated at once."""

    def is_wanted(self, case: CaseT) -> bool:  # noqa: ARG002
        """Whether there is something left to find."""
        return True

    def case_of(self, key: Key, *, identity: Identity) -> CaseT | None:
        """The case of the object with this identity."""
        case = self._cases.get(key)
        return case if case is not None and case.identity == identity else None

    def is_current(self, key: Key, case: Case) -> bool:
        """Whether a result for the case is still of interest."""
        return self._cases.get(key) is case

    def forget(self, key: Key) -> None:
        """Drop what is known about an object."""
        self._cases.pop(key, None)

    async def run(self) -> None:
        """Work until cancelled. Then drop all results, because another replica takes over."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    for key in self._claim_due():
                        group.create_task(self._run_round(key))
                    await asyncio.sleep(TICK_SECONDS)
        finally:
            self._cases.clear()

    async def round(self, key: Key) -> None:
        """Do one round for an object, if there is something to work on."""
        case = self._cases.get(key)
        if case is not None:
            await self.work(key, case)

    def _claim_due(self) -> list[Key]:
        now = self._clock()
        waiting = {key: case for key, case in self._cases.items() if key not in self._running and case.due <= now}
        due = sorted((key for key in waiting if self.is_wanted(waiting[key])), key=lambda key: waiting[key].due)
        if self.max_rounds is not None:
            due = due[: self.max_rounds - len(self._running)]
        self._running.update(due)
        return due

    async def _run_round(self, key: Key) -> None:
        with log_context(key):
            try:
                await self.round(key)
            except Exception:
                logger.exception("%s", self.error_text)
            finally:
                self._running.discard(key)

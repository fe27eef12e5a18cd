"""Asks new revisions, and adds the key of an object to the queue when there is a result.

The reconciler passes on the revision to ask (``update``), and reads the result (``verdict``). A new instance of the
operator asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from epd_operator.objects.identity import Identity, Key, revision_label
from epd_operator.plan.observation import Observation, Verdict
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.telemetry.logs import log_context
from epd_operator.verification.candidate import Candidate, candidate_of

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
FIRST_RETRY_SECONDS = 5.0
LAST_RETRY_SECONDS = 60.0


def _is_same(one: Candidate, other: Candidate) -> bool:
    """Whether a result for one of them holds for the other: the same revision, and the same questions."""
    return (one.asked.revision, one.questions) == (other.asked.revision, other.questions)


Ask = Callable[[Candidate], Awaitable[Verdict]]


@dataclass(kw_only=True)
class _Case:
    """A revision that is being asked.

    Attributes:
        identity: the object; another object of the same name is asked again.
        candidate: the revision, as last observed.
        due: time of the next request.
        retry: seconds until the one after it.
        verdict: the last result; None before the first.
    """

    identity: Identity
    candidate: Candidate
    due: float
    retry: float = FIRST_RETRY_SECONDS
    verdict: Verdict | None = None


class Verifier:
    """Asks the candidates of all objects, until they have answered once."""

    def __init__(self, *, ask: Ask, enqueue: Callable[[Key], None], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._enqueue = enqueue
        self._clock = clock
        self._cases: dict[Key, _Case] = {}
        self._running: set[Key] = set()

    def verdict(self, key: Key, *, identity: Identity) -> Verdict | None:
        """The last result for the object with this identity."""
        case = self._cases.get(key)
        return case.verdict if case is not None and case.identity == identity else None

    def update(self, key: Key, *, rollout: Rollout, observation: Observation) -> None:
        """Ask the revision that is ready but does not serve, if there is one."""
        identity, candidate = observation.identity, candidate_of(rollout, observation=observation)
        case = self._cases.get(key)
        if candidate is None:
            self.forget(key)
        elif case is None or case.identity != identity or not _is_same(case.candidate, candidate):
            self._cases[key] = _Case(identity=identity, candidate=candidate, due=self._clock())
        else:
            case.candidate = candidate

    def forget(self, key: Key) -> None:
        """Drop what is known about an object."""
        self._cases.pop(key, None)

    async def run(self) -> None:
        """Ask until cancelled. Then drop all results, because another replica takes over."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    for key in self._claim_due():
                        group.create_task(self._run_round(key))
                    await asyncio.sleep(TICK_SECONDS)
        finally:
            self._cases.clear()

    def _claim_due(self) -> list[Key]:
        now = self._clock()
        due = [
            key
            for key, case in self._cases.items()
            if case.due <= now and key not in self._running and not (case.verdict and case.verdict.passed)
        ]
        self._running.update(due)
        return due

    async def _run_round(self, key: Key) -> None:
        with log_context(key):
            try:
                await self.round(key)
            except Exception:
                logger.exception("unexpected error in the verification of a revision; it is asked again")
            finally:
                self._running.discard(key)

    async def round(self, key: Key) -> None:
        """Ask the candidate of one object once."""
        case = self._cases.get(key)
        if case is None:
            return
        # Before the request, so that an error of it is not repeated at once.
        case.due, case.retry = self._clock() + case.retry, min(case.retry * 2, LAST_RETRY_SECONDS)
        verdict = await self._ask(case.candidate)
        if self._cases.get(key) is not case:
            return
        changed, case.verdict = verdict != case.verdict, verdict
        if changed:
            logger.info("revision %s: %s", revision_label(verdict.revision), verdict.message)
            self._enqueue(key)

"""Asks the workers of all revisions that serve, after each change of their pods and then at intervals.

The reconciler passes on the revision to ask (``update``), and reads what was found (``findings``). A new instance of
the operator asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from epd_operator.objects.identity import Identity, Key
from epd_operator.plan.observation import Findings, Observation
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.telemetry.logs import log_context
from epd_operator.verification.survey import Subject, subject_of

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
MIN_INTERVAL_SECONDS = 60.0
"""Least time between two rounds of one object, however often its pods change."""
MAX_ROUNDS = 4
"""Objects whose workers are asked at the same time."""

Survey = Callable[[Subject], Awaitable[Findings]]


@dataclass(kw_only=True)
class _Case:
    """A revision whose workers are asked.

    Attributes:
        identity: the object; another object of the same name is asked again.
        subject: the revision, as last observed.
        due: time of the next round.
        began: time of the last round.
        findings: the result of the last round; None before the first.
    """

    identity: Identity
    subject: Subject
    due: float
    began: float = float("-inf")
    findings: Findings | None = None


class Canary:
    """Asks the workers of all objects that have known answers."""

    def __init__(self, *, survey: Survey, enqueue: Callable[[Key], None], clock: Callable[[], float]) -> None:
        self._survey = survey
        self._enqueue = enqueue
        self._clock = clock
        self._cases: dict[Key, _Case] = {}
        self._running: set[Key] = set()

    def findings(self, key: Key, *, identity: Identity) -> Findings | None:
        """What was last found for the object with this identity."""
        case = self._cases.get(key)
        return case.findings if case is not None and case.identity == identity else None

    def update(self, key: Key, *, rollout: Rollout, observation: Observation) -> None:
        """Ask the workers of the revision that serves, if it has known answers and nothing is rolled out."""
        identity, subject = observation.identity, subject_of(rollout, observation=observation)
        case = self._cases.get(key)
        if subject is None:
            self.forget(key)
        elif case is None or case.identity != identity or _revision(case.subject) != _revision(subject):
            self._cases[key] = _Case(identity=identity, subject=subject, due=self._clock())
        else:
            if case.subject.asked.workers != subject.asked.workers:
                case.due = min(case.due, max(self._clock(), case.began + MIN_INTERVAL_SECONDS))
            case.subject = subject

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
        due = [key for key, case in self._cases.items() if case.due <= now and key not in self._running]
        due = sorted(due, key=lambda key: self._cases[key].due)[: MAX_ROUNDS - len(self._running)]
        self._running.update(due)
        return due

    async def _run_round(self, key: Key) -> None:
        with log_context(key):
            try:
                await self.round(key)
            except Exception:
                logger.exception("unexpected error while workers were asked; they are asked again")
            finally:
                self._running.discard(key)

    async def round(self, key: Key) -> None:
        """Ask the workers of one object once."""
        case = self._cases.get(key)
        if case is None:
            return
        case.began = self._clock()
        case.due = case.began + case.subject.interval
        findings = await self._survey(case.subject)
        if self._cases.get(key) is not case:
            return
        changed, case.findings = findings != case.findings, findings
        if changed:
            logger.info("%d workers answer as expected, %d wrongly", len(findings.right), len(findings.wrong))
            self._enqueue(key)


def _revision(subject: Subject) -> tuple[object, ...]:
    """What must be the same for an earlier result to hold."""
    return subject.asked.revision, subject.questions

"""Asks the workers of all revisions that serve, after each change of their pods and then at intervals.

The reconciler passes on the revision to ask (``update``), and reads what was found (``findings``). A new instance of
the operator asks again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from epd_operator.objects.identity import Identity, Key
from epd_operator.plan.observation import Findings, Observation
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.verification.rounds import Case, Rounds
from epd_operator.verification.survey import Subject, subject_of

logger = logging.getLogger(__name__)

MIN_INTERVAL_SECONDS = 60.0
"""Least time between two rounds of one object, however often its pods change."""
MAX_ROUNDS = 4
"""Objects whose workers are asked at the same time."""

Survey = Callable[[Subject], Awaitable[Findings]]


@dataclass(kw_only=True)
class _Case(Case):
    """A revision whose workers are asked.

    Attributes:
        subject: the revision, as last observed.
        began: time of the last round.
        findings: the result of the last round; None before the first.
    """

    subject: Subject
    began: float = float("-inf")
    findings: Findings | None = None


class Canary(Rounds[_Case]):
    """Asks the workers of all objects that have known answers."""

    error_text = "unexpected error while workers were asked; they are asked again"
    max_rounds = MAX_ROUNDS

    def __init__(self, *, survey: Survey, enqueue: Callable[[Key], None], clock: Callable[[], float]) -> None:
        super().__init__(enqueue=enqueue, clock=clock)
        self._survey = survey

    def findings(self, key: Key, *, identity: Identity) -> Findings | None:
        """What was last found for the object with this identity."""
        case = self.case_of(key, identity=identity)
        return None if case is None else case.findings

    def update(self, key: Key, *, rollout: Rollout, observation: Observation) -> None:
        """Ask the workers of the revision that serves, if it has known answers and nothing is rolled out."""
        identity, subject = observation.identity, subject_of(rollout, observation=observation)
        case = self.case_of(key, identity=identity)
        if subject is None:
            self.forget(key)
        elif case is None or _revision(case.subject) != _revision(subject):
            self._cases[key] = _Case(identity=identity, subject=subject, due=self._clock())
        else:
            if case.subject.asked.workers != subject.asked.workers:
                case.due = min(case.due, max(self._clock(), case.began + MIN_INTERVAL_SECONDS))
            case.subject = subject

    async def work(self, key: Key, case: _Case) -> None:
        """Ask the workers of one object once."""
        case.began = self._clock()
        case.due = case.began + case.subject.interval
        findings = await self._survey(case.subject)
        if not self.is_current(key, case):
            return
        changed, case.findings = findings != case.findings, findings
        if changed:
            logger.info("%d workers answer as expected, %d wrongly", len(findings.right), len(findings.wrong))
            self._enqueue(key)


def _revision(subject: Subject) -> tuple[object, ...]:
    """What must be the same for an earlier result to hold."""
    return subject.asked.revision, subject.questions

"""Asks new revisions, and adds the key of an object to the queue when there is a result.

The reconciler passes on the revision to ask (``update``), and reads the result (``verdict``). A new instance of the
operator asks again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from epd_operator.objects.identity import Identity, Key, revision_label
from epd_operator.plan.observation import Observation, Verdict
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.verification.candidate import Candidate, candidate_of
from epd_operator.verification.rounds import Case, Rounds

logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 5.0
LAST_RETRY_SECONDS = 60.0


def _is_same(one: Candidate, other: Candidate) -> bool:
    """Whether a result for one of them holds for the other: the same revision, and the same questions."""
    return (one.asked.revision, one.questions) == (other.asked.revision, other.questions)


Ask = Callable[[Candidate], Awaitable[Verdict]]


@dataclass(kw_only=True)
class _Case(Case):
    """A revision that is being asked.

    Attributes:
        candidate: the revision, as last observed.
        retry: seconds from the next request to the one after it.
        verdict: the last result; None before the first.
    """

    candidate: Candidate
    retry: float = FIRST_RETRY_SECONDS
    verdict: Verdict | None = None


class Verifier(Rounds[_Case]):
    """Asks the candidates of all objects, until they have answered once."""

    error_text = "unexpected error in the verification of a revision; it is asked again"

    def __init__(self, *, ask: Ask, enqueue: Callable[[Key], None], clock: Callable[[], float]) -> None:
        super().__init__(enqueue=enqueue, clock=clock)
        self._ask = ask

    def verdict(self, key: Key, *, identity: Identity) -> Verdict | None:
        """The last result for the object with this identity."""
        case = self.case_of(key, identity=identity)
        return None if case is None else case.verdict

    def update(self, key: Key, *, rollout: Rollout, observation: Observation) -> None:
        """Ask the revision that is ready but does not serve, if there is one."""
        identity, candidate = observation.identity, candidate_of(rollout, observation=observation)
        case = self.case_of(key, identity=identity)
        if candidate is None:
            self.forget(key)
        elif case is None or not _is_same(case.candidate, candidate):
            self._cases[key] = _Case(identity=identity, candidate=candidate, due=self._clock())
        else:
            case.candidate = candidate

    def is_wanted(self, case: _Case) -> bool:
        """Whether the candidate has not answered yet."""
        return case.verdict is None or not case.verdict.passed

    async def work(self, key: Key, case: _Case) -> None:
        """Ask the candidate of one object once."""
        # Before the request, so that an error of it is not repeated at once.
        case.due, case.retry = self._clock() + case.retry, min(case.retry * 2, LAST_RETRY_SECONDS)
        verdict = await self._ask(case.candidate)
        if not self.is_current(key, case):
            return
        changed, case.verdict = verdict != case.verdict, verdict
        if changed:
            logger.info("revision %s: %s", revision_label(verdict.revision), verdict.message)
            self._enqueue(key)

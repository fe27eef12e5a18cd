"""Compares the errors of two revisions that share the traffic, and adds the key to the queue if the new one is worse.

The reconciler passes on the revisions (``update``), and reads the result (``comparison``). A new instance of the
operator counts from its start: the step itself, and a return, are recorded in the cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.targets import Target, targets_of
from epd_operator.objects.identity import Identity, Key, StageKey
from epd_operator.plan.observation import Answered, Comparison, Observation
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.rollout.shares import is_worse
from epd_operator.verification.rounds import Case, Rounds

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 10.0
MAX_FRONTENDS = 32
"""Frontends of each revision whose pages are read."""

Read = Callable[[Sequence[Target]], Awaitable[Mapping[str, Answered]]]


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Two revisions that share the traffic.

    Attributes:
        revision: name of the new one.
        step: the step, with its start: each is counted by itself.
        new: metrics pages of its ready frontends.
        old: those of the revision that serves.
    """

    revision: str
    step: str
    new: tuple[Target, ...]
    old: tuple[Target, ...]


def shared_of(rollout: Rollout, *, observation: Observation) -> Shared | None:
    """The revisions to compare; None if no two share the traffic."""
    share = rollout.share
    if not rollout.is_shared or share is None:
        return None
    new, old = (_frontends(name, observation=observation) for name in (rollout.target.name, rollout.serving.name))
    return Shared(revision=rollout.target.name, step=str(share.mark), new=new, old=old)


def _frontends(revision: str, *, observation: Observation) -> tuple[Target, ...]:
    targets = targets_of(observation.pods_of(StageKey(StageName.FRONTEND, revision)))
    return tuple(target for target in targets if target.ready)[:MAX_FRONTENDS]


@dataclass(kw_only=True)
class _Counter:
    """What one frontend has answered since its page was first read."""

    first: Answered
    last: Answered
    before: Answered = field(default_factory=Answered)

    def add(self, now: Answered) -> None:
        """A later page. Smaller numbers are those of a restarted process."""
        if now.requests < self.last.requests or now.failed < self.last.failed:
            self.before, self.first = self.total, Answered()
        self.last = now

    @property
    def total(self) -> Answered:
        return Answered(
            requests=self.before.requests + self.last.requests - self.first.requests,
            failed=self.before.failed + self.last.failed - self.first.failed,
        )


@dataclass(kw_only=True)
class _Case(Case):
    """Two revisions that are compared.

    Attributes:
        shared: the revisions, as last observed.
        new: counters of the frontends of the new one, by pod.
        old: counters of those of the revision that serves.
        comparison: the last result; None before the first.
    """

    shared: Shared
    new: dict[str, _Counter] = field(default_factory=dict)
    old: dict[str, _Counter] = field(default_factory=dict)
    comparison: Comparison | None = None


class Comparer(Rounds[_Case]):
    """Reads the pages of all objects of which two revisions share the traffic."""

    error_text = "unexpected error while two revisions were compared; they are compared again"

    def __init__(self, *, read: Read, enqueue: Callable[[Key], None], clock: Callable[[], float]) -> None:
        super().__init__(enqueue=enqueue, clock=clock)
        self._read = read

    def comparison(self, key: Key, *, identity: Identity) -> Comparison | None:
        """The last result for the object with this identity."""
        case = self.case_of(key, identity=identity)
        return None if case is None else case.comparison

    def update(self, key: Key, *, rollout: Rollout, observation: Observation) -> None:
        """Compare the revisions that share the traffic, if there are two."""
        identity, shared = observation.identity, shared_of(rollout, observation=observation)
        case = self.case_of(key, identity=identity)
        if shared is None:
            self.forget(key)
        elif case is None or _step(case.shared) != _step(shared):
            self._cases[key] = _Case(identity=identity, shared=shared, due=self._clock())
        else:
            case.shared = shared

    async def work(self, key: Key, case: _Case) -> None:
        """Read the pages of one object once."""
        case.due = self._clock() + INTERVAL_SECONDS
        shared = case.shared
        pages = await self._read((*shared.new, *shared.old))
        if not self.is_current(key, case):
            return
        for counters, targets in ((case.new, shared.new), (case.old, shared.old)):
            for pod in (target.pod for target in targets if target.pod in pages):
                counters.setdefault(pod, _Counter(first=pages[pod], last=pages[pod])).add(pages[pod])
        was_worse = case.comparison is not None and is_worse(case.comparison)
        case.comparison = Comparison(revision=shared.revision, new=_sum(case.new), old=_sum(case.old))
        if is_worse(case.comparison) and not was_worse:
            logger.info("the new revision answers more requests with errors: %s", case.comparison)
            self._enqueue(key)


def _step(shared: Shared) -> tuple[str, str]:
    return shared.revision, shared.step


def _sum(counters: Mapping[str, _Counter]) -> Answered:
    totals = [counter.total for counter in counters.values()]
    return Answered(requests=sum(t.requests for t in totals), failed=sum(t.failed for t in totals))

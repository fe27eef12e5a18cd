"""Compares the errors of two revisions that share the traffic, and adds the key to the queue if the new one is worse.

The reconciler passes on the revisions (``update``), and reads the result (``comparison``). A new instance of the
operator counts from its start: the step itself, and a return, are recorded in the cluster.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.targets import Target, targets_of
from epd_operator.objects.identity import Identity, Key, StageKey
from epd_operator.plan.observation import Answered, Comparison, Observation
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.rollout.shares import is_worse
from epd_operator.telemetry.logs import log_context

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
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
class _Case:
    """Two revisions that are compared.

    Attributes:
        identity: the object; another object of the same name is another case.
        shared: the revisions, as last observed.
        due: time of the next reading.
        new: counters of the frontends of the new one, by pod.
        old: counters of those of the revision that serves.
        comparison: the last result; None before the first.
    """

    identity: Identity
    shared: Shared
    due: float
    new: dict[str, _Counter] = field(default_factory=dict)
    old: dict[str, _Counter] = field(default_factory=dict)
    comparison: Comparison | None = None


class Comparer:
    """Reads the pages of all objects of which two revisions share the traffic."""

    def __init__(self, *, read: Read, enqueue: Callable[[Key], None], clock: Callable[[], float]) -> None:
        self._read = read
        self._enqueue = enqueue
        self._clock = clock
        self._cases: dict[Key, _Case] = {}
        self._running: set[Key] = set()

    def comparison(self, key: Key, *, identity: Identity) -> Comparison | None:
        """The last result for the object with this identity."""
        case = self._cases.get(key)
        return case.comparison if case is not None and case.identity == identity else None

    def update(self, key: Key, *, rollout: Rollout, observation: Observation) -> None:
        """Compare the revisions that share the traffic, if there are two."""
        identity, shared = observation.identity, shared_of(rollout, observation=observation)
        case = self._cases.get(key)
        if shared is None:
            self.forget(key)
        elif case is None or case.identity != identity or _step(case.shared) != _step(shared):
            self._cases[key] = _Case(identity=identity, shared=shared, due=self._clock())
        else:
            case.shared = shared

    def forget(self, key: Key) -> None:
        """Drop what is known about an object."""
        self._cases.pop(key, None)

    async def run(self) -> None:
        """Read until cancelled. Then drop all results, because another replica takes over."""
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
        self._running.update(due)
        return due

    async def _run_round(self, key: Key) -> None:
        with log_context(key):
            try:
                await self.round(key)
            except Exception:
                logger.exception("unexpected error while two revisions were compared; they are compared again")
            finally:
                self._running.discard(key)

    async def round(self, key: Key) -> None:
        """Read the pages of one object once."""
        case = self._cases.get(key)
        if case is None:
            return
        case.due = self._clock() + INTERVAL_SECONDS
        shared = case.shared
        pages = await self._read((*shared.new, *shared.old))
        if self._cases.get(key) is not case:
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

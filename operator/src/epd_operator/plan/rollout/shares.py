"""The share of the traffic that a new revision gets before it gets all requests.

While two revisions share the traffic, the Service selects the frontends of both. kube-proxy chooses one for each new
connection with equal probability, so the numbers of frontends decide on the share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from math import sqrt

from epd_operator.api.v1alpha1.rollout import TrafficStep
from epd_operator.plan.observation import Answered, Comparison
from epd_operator.plan.rollout.sizes import StageView

MAX_FURTHER_FRONTENDS = 10
"""Frontends of both revisions together, above the number that the old one has without a rollout."""
MIN_FAILED = 5
"""Failed requests of the new revision below which nothing is concluded."""
MAX_DEVIATION = 3.0
"""Standard errors by which the share of failed requests may be higher: by chance 1 of about 740 comparisons is."""
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, kw_only=True)
class StepMark:
    """The step of a share, as the record of the spec has it.

    Attributes:
        index: number of the step, from 0; the number of steps means that all are over.
        since: when the share of this step was reached; None: it is not reached yet.
    """

    index: int = 0
    since: datetime | None = None

    def __str__(self) -> str:
        """The value of the annotation."""
        return str(self.index) if self.since is None else f"{self.index} {self.since.astimezone(UTC):{_TIME}}"


def mark_in(text: str) -> StepMark | None:
    """The mark in an annotation; None if it is empty or not valid."""
    index, _, since = text.partition(" ")
    if not (index.isascii() and index.isdigit() and len(index) <= 2):
        return None
    try:
        at = datetime.strptime(since, _TIME).replace(tzinfo=UTC) if since else None
    except ValueError:
        return None
    return StepMark(index=int(index), since=at)


@dataclass(frozen=True, kw_only=True)
class Frontends:
    """Numbers of frontends of the revision that serves and of the new one."""

    old: int
    new: int

    @property
    def percent(self) -> float:
        """The share of the new revision."""
        return 100 * self.new / (self.old + self.new)


def frontends_for(percent: int, *, old: int) -> Frontends:
    """The numbers whose share is nearest to a percentage; of equal ones the fewest.

    The old revision keeps the frontends that it has without a rollout, so that it can take all requests again at once.

    Args:
        percent: the share of the new revision.
        old: frontends that the old revision has without a rollout.
    """
    most = old + MAX_FURTHER_FRONTENDS
    pairs = (Frontends(old=n, new=total - n) for total in range(old + 1, most + 1) for n in range(old, total))
    return min(pairs, key=lambda pair: (abs(pair.percent - percent), pair.old + pair.new))


class ShareState(StrEnum):
    """What a share waits for."""

    NOT_READY = "NotReady"
    PREPARING = "Preparing"
    SHARED = "Shared"
    RETURNED = "Returned"
    OVER = "Over"


@dataclass(frozen=True, kw_only=True)
class Share:
    """What should be true of the share now.

    Attributes:
        state: what it waits for.
        mark: the step to record; None if there is none.
        returned: why the new revision gets no share any more; empty if it may get one.
        frontends: numbers of frontends; None if no share is to be reached.
        is_open: whether the Service selects the frontends of both revisions.
        ends: when the present step is over; None before its share is reached.
    """

    state: ShareState
    mark: StepMark | None = None
    returned: str = ""
    frontends: Frontends | None = None
    is_open: bool = False
    ends: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What is seen of the traffic.

    Attributes:
        mark: the recorded step of the new revision; None if it has none.
        returned: the recorded reason why the new revision gets no share any more; empty if there is none.
        is_open: whether the live Service selects the frontends of all revisions.
        is_alone: whether no third revision has frontends.
        now: the time; None if it is not known, then no step ends.
        comparison: what both revisions have answered in the same time; None if it is not known.
    """

    mark: StepMark | None = None
    returned: str = ""
    is_open: bool = False
    is_alone: bool = True
    now: datetime | None = None
    comparison: Comparison | None = None

    @property
    def is_shared(self) -> bool:
        """Whether the new revision gets a share of the traffic."""
        return self.is_open and self.mark is not None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """What is seen of the two revisions.

    Attributes:
        new: name of the new one.
        frontends: the frontends of the old and of the new one.
        is_new_ready: whether all pods of the GPU stages of the new one are ready, and at least one frontend.
        lost: a stage of the new one without ready pods; empty if there is none.
        is_old_available: whether each stage of the old one has a ready pod.
    """

    new: str
    frontends: tuple[StageView, StageView]
    is_new_ready: bool
    lost: str = ""
    is_old_available: bool = True

    @cached_property
    def seen(self) -> Frontends:
        """The planned numbers of frontends."""
        old, new = self.frontends
        return Frontends(old=old.desired, new=new.desired)

    def has(self, wanted: Frontends) -> bool:
        """Whether exactly these frontends are ready."""
        old, new = self.frontends
        return (old.desired, old.ready, new.desired, new.ready) == (wanted.old, wanted.old, wanted.new, wanted.new)


def next_share(pair: Pair, *, steps: Sequence[TrafficStep], traffic: Traffic) -> Share:
    """The next state of the share of a new revision that has answered.

    Args:
        pair: what is seen of both revisions.
        steps: ``spec.rollout.steps``.
        traffic: what is seen of the traffic.
    """
    if traffic.returned:
        return Share(state=ShareState.RETURNED, returned=traffic.returned)
    if not traffic.is_open and not pair.is_new_ready:
        # It had no requests, and is asked again when it is ready.
        return Share(state=ShareState.NOT_READY)
    mark = traffic.mark or StepMark()
    fault = _fault(pair, comparison=traffic.comparison)
    if traffic.is_open and fault:
        return Share(state=ShareState.RETURNED, returned=fault)
    if not pair.is_old_available and pair.is_new_ready:
        # Nothing is lost if the new one gets all requests.
        return _over(pair, index=len(steps), is_open=traffic.is_open)
    if mark.since is not None and mark.index < len(steps):
        ends = mark.since + timedelta(seconds=steps[mark.index].pause_seconds)
        if traffic.now is not None and traffic.now >= ends:
            mark = StepMark(index=mark.index + 1)
    if mark.index >= len(steps):
        return _last(pair, index=len(steps), traffic=traffic)
    return _at(mark, pair, steps=steps, traffic=traffic)


def _at(mark: StepMark, pair: Pair, *, steps: Sequence[TrafficStep], traffic: Traffic) -> Share:
    """A step that is not over."""
    step = steps[mark.index]
    wanted = frontends_for(step.traffic_percent, old=pair.frontends[0].full)
    if mark.since is None and traffic.is_alone and pair.has(wanted) and pair.is_new_ready and traffic.now is not None:
        mark = replace(mark, since=traffic.now)
    return Share(
        state=ShareState.PREPARING if mark.since is None else ShareState.SHARED,
        mark=mark,
        frontends=wanted,
        # After the first step it stays open while the numbers change.
        is_open=traffic.is_alone and (mark.since is not None or (traffic.is_open and mark.index > 0)),
        ends=None if mark.since is None else mark.since + timedelta(seconds=step.pause_seconds),
    )


def _last(pair: Pair, *, index: int, traffic: Traffic) -> Share:
    """All steps are over: the new revision gets all requests as soon as it has all its frontends."""
    new = pair.frontends[1]
    wanted = Frontends(old=pair.seen.old, new=max(new.full, new.desired))
    if pair.is_new_ready and new.ready >= new.full:
        return _over(pair, index=index, is_open=traffic.is_open)
    return Share(
        state=ShareState.PREPARING,
        mark=StepMark(index=index),
        frontends=wanted,
        is_open=traffic.is_alone and traffic.is_open,
    )


def _over(pair: Pair, *, index: int, is_open: bool) -> Share:
    # The record keeps the mark until the Service is seen to select the new revision, and says until then which is new.
    return Share(state=ShareState.OVER, mark=StepMark(index=index) if is_open else None, frontends=pair.seen)


def _fault(pair: Pair, *, comparison: Comparison | None) -> str:
    """Why the new revision must get no more requests; empty if there is no reason."""
    if pair.lost and pair.is_old_available:
        return f"stage {pair.lost} had no ready pods left"
    if comparison is None or comparison.revision != pair.new or not is_worse(comparison):
        return ""
    new, old = comparison.new, comparison.old
    return (
        f"{new.failed} of {new.requests} requests failed with errors of the server, in the same time {old.failed} of "
        f"{old.requests} of the revision that serves"
    )


def is_worse(comparison: Comparison) -> bool:
    """Whether the new revision fails clearly more often: a test of two proportions with the pooled variance."""
    new, old = comparison.new, comparison.old
    if new.failed < MIN_FAILED or not new.requests:
        return False
    if not old.requests:
        # Nothing to compare with: as if as many requests had succeeded.
        old = Answered(requests=new.requests)
    pooled = (new.failed + old.failed) / (new.requests + old.requests)
    error = sqrt(pooled * (1 - pooled) * (1 / new.requests + 1 / old.requests)) if pooled < 1 else 0.0
    return new.failed / new.requests - old.failed / old.requests > MAX_DEVIATION * error

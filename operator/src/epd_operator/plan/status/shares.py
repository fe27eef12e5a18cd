"""What the status says about two revisions that share the traffic."""

from __future__ import annotations

from epd_operator.objects.identity import revision_label
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.status.problem import Problem
from epd_operator.plan.status.reasons import Reason


def share_problem(rollout: Rollout) -> Problem:
    """Which share is reached or prepared, or why the new revision gets none any more."""
    share, new, old = rollout.share, revision_label(rollout.target.name), revision_label(rollout.serving.name)
    if share is not None and share.returned:
        message = (
            f"revision {new} got a share of the traffic, and gets none any more, because {share.returned}; revision "
            f"{old} serves: change the spec or undo the change; spec.rollout.steps: [] gives it all requests "
            "nevertheless"
        )
        return Problem(Reason.REVISION_RETURNED, message)
    return Problem(Reason.REVISION_SHARING, _share(rollout, new=new, old=old))


def _share(rollout: Rollout, *, new: str, old: str) -> str:
    share = rollout.share
    steps = rollout.target.spec.rollout.steps if rollout.target.spec is not None else []
    if share is None or share.mark is None or share.frontends is None:
        return f"revisions {old} and {new} share the traffic"
    if share.mark.index >= len(steps):
        return f"all steps are over; revision {new} gets all requests when it has all its frontends"
    numbers = share.frontends
    what = f"about {numbers.percent:.0f} % of new connections ({numbers.new} of {numbers.old + numbers.new} frontends)"
    where = f"step {share.mark.index + 1} of {len(steps)} (trafficPercent: {steps[share.mark.index].traffic_percent})"
    if share.ends is None:
        return f"revision {new} is to get {what} when exactly these frontends are ready: {where}"
    return f"revision {new} gets {what} until {share.ends:%Y-%m-%dT%H:%M:%SZ}, revision {old} the others: {where}"

"""Scaling decisions as status shows them."""

from __future__ import annotations

from epd_operator.api.v1alpha1.status import ScalingStatus
from epd_operator.objects.identity import StageKey
from epd_operator.plan.observation import KubernetesObject, Observation
from epd_operator.scaling.model import Decision


def scaling_status(stage: StageKey, *, observation: Observation, now: str) -> ScalingStatus | None:
    """The stage's last decision; without one since the operator started, what status said before."""
    before = _previous(observation.status, stage)
    decision = observation.decisions.get(stage)
    if decision is None:
        return ScalingStatus.model_validate(before) if before else None
    since = before.get("lastChangeTime") if before.get("desired") == decision.desired else None
    return _from_decision(decision, since=str(since or now))


def _from_decision(decision: Decision, *, since: str) -> ScalingStatus:
    age = decision.metric_age_seconds
    return ScalingStatus(
        current=decision.current,
        desired=decision.desired,
        reason=decision.reason,
        message=decision.message[:1024],
        signal=decision.signal,
        value=_decimal(decision.value),
        target=_decimal(decision.target),
        metric_age_seconds=None if age is None else round(age),
        last_change_time=since,
    )


def _decimal(value: float | None) -> str | None:
    """Status has no floats: a decimal number with at most two places."""
    return None if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def _previous(status: KubernetesObject, stage: StageKey) -> KubernetesObject:
    for known in status.get("stages") or ():
        if known.get("name") == stage.name:
            found: KubernetesObject = known.get("scaling") or {}
            return found
    return {}

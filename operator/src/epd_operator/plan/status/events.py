"""What users are told when a status changes: the difference between two statuses, in Events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from epd_operator.objects.text import one_line
from epd_operator.plan.observation import KubernetesObject
from epd_operator.plan.status.reasons import ConditionType, EventType, Reason
from epd_operator.scaling.model import Decision

MAX_NOTE = 1024
"""Bytes of a note; the API takes no more."""
_CUT = "…".encode()


class EventReason(StrEnum):
    """Reasons of Events that are no reasons of conditions or of scaling decisions."""

    RESUMED = "Resumed"
    TOPOLOGY_CHANGED = "TopologyChanged"


class Action(StrEnum):
    """What the operator did or was about to do."""

    SERVE = "Serve"
    RECONCILE = "Reconcile"
    START_PODS = "StartPods"
    SCALE = "Scale"


@dataclass(frozen=True, kw_only=True)
class StatusEvent:
    """An Event to be.

    Attributes:
        type: Normal or Warning.
        reason: one CamelCase word.
        action: what the operator did, one CamelCase word.
        note: the same for a person, on one line, of bounded length.
    """

    type: EventType
    reason: str
    action: Action
    note: str


def status_events(before: KubernetesObject, after: KubernetesObject) -> tuple[StatusEvent, ...]:
    """What has changed from one status to the next; nothing where nothing has.

    The status before is the one that the object carries, so neither a restart nor another instance of the operator
    announces anything twice.
    """
    return (*_topology(before, after), *_stages(before, after), *_conditions(before, after))


def scaling_event(decision: Decision) -> StatusEvent:
    """A changed number of replicas."""
    note = f"{decision.stage} from {decision.current} to {decision.desired} replicas: {decision.message}"
    return _normal(decision.reason, Action.SCALE, note)


def _topology(before: KubernetesObject, after: KubernetesObject) -> Iterator[StatusEvent]:
    old, new = before.get("topology"), after.get("topology")
    if old and new and old != new:
        yield _normal(EventReason.TOPOLOGY_CHANGED, Action.RECONCILE, f"from {old} to {new}")


def _stages(before: KubernetesObject, after: KubernetesObject) -> Iterator[StatusEvent]:
    """Problems and rollouts of stages that begin. Messages name pods, which come and go: only the reason counts."""
    reasons = {stage.get("name"): stage.get("reason") for stage in before.get("stages", ())}
    for stage in after.get("stages", ()):
        name, reason = stage.get("name"), stage.get("reason")
        if reason == reasons.get(name):
            continue
        note = f"{name} {stage.get('ready')}/{stage.get('desired')}: {stage.get('message')}"
        event = _stage_event(reason)
        if event is not None:
            yield _event(event, reason, Action.START_PODS, note)


def _conditions(before: KubernetesObject, after: KubernetesObject) -> Iterator[StatusEvent]:
    changed = dict(_changed_conditions(before, after))
    if (stalled := changed.get(ConditionType.STALLED)) is not None:
        if stalled.holds:
            yield _warning(stalled.reason, Action.RECONCILE, stalled.message)
        elif stalled.held:
            yield _normal(EventReason.RESUMED, Action.RECONCILE, stalled.message)
    if (available := changed.get(ConditionType.AVAILABLE)) is not None and available.holds != available.held:
        if available.holds:
            yield _normal(available.reason, Action.SERVE, available.message)
        else:
            yield _warning(available.reason, Action.SERVE, available.message)
    if (ready := changed.get(ConditionType.READY)) is not None:
        won = ready.holds and not ready.held
        if won or ready.reason == Reason.WAITING_FOR_REMOVAL:
            yield _normal(ready.reason, Action.RECONCILE, ready.message)


@dataclass(frozen=True, kw_only=True)
class _Change:
    """A condition whose status or reason is another than before; ``held`` is false where it was not there."""

    held: bool
    holds: bool
    reason: str
    message: str


def _changed_conditions(before: KubernetesObject, after: KubernetesObject) -> Iterator[tuple[ConditionType, _Change]]:
    known = {condition.get("type"): condition for condition in before.get("conditions", ())}
    for condition in after.get("conditions", ()):
        kind = condition.get("type")
        old = known.get(kind, {})
        if (condition.get("status"), condition.get("reason")) != (old.get("status"), old.get("reason")):
            yield (
                ConditionType(kind),
                _Change(
                    held=old.get("status") == "True",
                    holds=condition.get("status") == "True",
                    reason=str(condition.get("reason")),
                    message=str(condition.get("message")),
                ),
            )


def _stage_event(reason: str | None) -> EventType | None:
    """The type of the Event of a stage's reason. A status of another version may have unknown reasons."""
    return next((known.traits.event for known in Reason if known == reason), None)


def _normal(reason: str, action: Action, note: str) -> StatusEvent:
    return _event(EventType.NORMAL, reason, action, note)


def _warning(reason: str, action: Action, note: str) -> StatusEvent:
    return _event(EventType.WARNING, reason, action, note)


def _event(event: EventType, reason: str, action: Action, note: str) -> StatusEvent:
    return StatusEvent(type=event, reason=str(reason), action=action, note=_note(note))


def _note(text: str) -> str:
    """On one line, and no longer than the API allows."""
    whole = one_line(text, limit=MAX_NOTE).encode(errors="replace")
    if len(whole) <= MAX_NOTE:
        return whole.decode()
    return whole[: MAX_NOTE - len(_CUT)].decode(errors="ignore") + _CUT.decode()

"""The Events that report a changed status: the difference between two statuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from epd_operator.api.v1alpha1.status import RevisionState
from epd_operator.objects.text import one_line
from epd_operator.plan.observation import Admitted, ChildKey, KubernetesObject
from epd_operator.plan.status.reasons import ConditionType, EventType, Reason
from epd_operator.scaling.model import Decision

MAX_NOTE = 1024
"""Most bytes of a note that the API accepts."""
MAX_FIELDS = 8
"""Most fields of a child that one note lists."""
_CUT = "…".encode()


class EventReason(StrEnum):
    """Reasons of Events that are not reasons of conditions or of scaling decisions."""

    RESUMED = "Resumed"
    TOPOLOGY_CHANGED = "TopologyChanged"
    REVISION_STARTED = "RevisionStarted"
    REVISION_SERVES = "RevisionServes"
    REVISION_REMOVED = "RevisionRemoved"
    CHANGED_BY_ADMISSION = "ChangedByAdmission"
    WORKER_EVICTED = "WorkerEvicted"


class Action(StrEnum):
    """Actions of the operator, for the field ``action`` of Events."""

    SERVE = "Serve"
    RECONCILE = "Reconcile"
    START_PODS = "StartPods"
    SCALE = "Scale"
    ROLL_OUT = "RollOut"


@dataclass(frozen=True, kw_only=True)
class StatusEvent:
    """An Event to write.

    Attributes:
        type: Normal or Warning.
        reason: why the Event is written, one CamelCase word.
        action: what the operator did, one CamelCase word.
        note: the message for users, on one line, of bounded length.
    """

    type: EventType
    reason: str
    action: Action
    note: str


def status_events(before: KubernetesObject, after: KubernetesObject) -> tuple[StatusEvent, ...]:
    """The Events that report the difference between two statuses; none if they are equal.

    The status before is read from the object. So neither a restart nor another instance of the operator repeats an
    Event.
    """
    return (*_topology(before, after), *_revisions(before, after), *_stages(before, after), *_conditions(before, after))


def scaling_event(decision: Decision) -> StatusEvent:
    """The Event of a changed number of replicas."""
    note = f"scaling {decision.stage} from {decision.current} to {decision.desired} replicas: {decision.message}"
    return _normal(decision.reason, Action.SCALE, note)


def admission_event(child: ChildKey, record: Admitted) -> StatusEvent:
    """The Event of a child in which admission has changed fields. It has no values: they may be secret."""
    fields = ", ".join(record.fields[:MAX_FIELDS])
    more = len(record.fields) - MAX_FIELDS
    note = f"{child.kind} {child.name}: a mutating admission policy or webhook has changed {fields}"
    note += f" and {more} more fields" if more > 0 else ""
    if record.is_unstable:
        note += " to another value again and again; the operator accepts every value there until the plan changes"
    else:
        note += "; the operator accepts this"
    return _normal(EventReason.CHANGED_BY_ADMISSION, Action.RECONCILE, note)


def eviction_event(pod: str, *, fault: str) -> StatusEvent:
    """The Event of a worker that was evicted because it answers wrongly."""
    note = f"pod {pod} is evicted, because it answers wrongly: {fault}"
    return _normal(EventReason.WORKER_EVICTED, Action.ROLL_OUT, note)


def _topology(before: KubernetesObject, after: KubernetesObject) -> Iterator[StatusEvent]:
    old, new = before.get("topology"), after.get("topology")
    if old and new and old != new:
        yield _normal(EventReason.TOPOLOGY_CHANGED, Action.RECONCILE, f"the topology changes from {old} to {new}")


def _revisions(before: KubernetesObject, after: KubernetesObject) -> Iterator[StatusEvent]:
    """The steps of a rollout. The first revision of an object is no rollout."""
    old = {revision.get("name"): revision.get("state") for revision in before.get("revisions", ())}
    new = {revision.get("name"): revision.get("state") for revision in after.get("revisions", ())}
    if not old:
        return
    for name, state in new.items():
        if state == old.get(name):
            continue
        if state == RevisionState.STARTING:
            yield _normal(EventReason.REVISION_STARTED, Action.ROLL_OUT, f"revision {name} starts")
        elif state == RevisionState.SERVING:
            yield _normal(EventReason.REVISION_SERVES, Action.ROLL_OUT, f"revision {name} gets the requests")
    for name in old.keys() - new.keys():
        yield _normal(EventReason.REVISION_REMOVED, Action.ROLL_OUT, f"revision {name} is removed")


def _stages(before: KubernetesObject, after: KubernetesObject) -> Iterator[StatusEvent]:
    """New reasons of stages. A changed message alone is no new reason: messages name pods, and pods are replaced."""
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
        if stalled.is_true:
            yield _warning(stalled.reason, Action.RECONCILE, stalled.message)
        elif stalled.was_true:
            yield _normal(EventReason.RESUMED, Action.RECONCILE, stalled.message)
    if (available := changed.get(ConditionType.AVAILABLE)) is not None and available.is_true != available.was_true:
        if available.is_true:
            yield _normal(available.reason, Action.SERVE, available.message)
        else:
            yield _warning(available.reason, Action.SERVE, available.message)
    for kind in (ConditionType.CRD_OUTDATED, ConditionType.NODES_UNSUITABLE):
        if (problem := changed.get(kind)) is not None and problem.is_true:
            yield _warning(problem.reason, Action.RECONCILE, problem.message)
    if (ready := changed.get(ConditionType.READY)) is not None:
        yield from _ready(ready, stages=after.get("stages", ()))


def _ready(ready: _Change, *, stages: Sequence[KubernetesObject]) -> Iterator[StatusEvent]:
    """The Event of a changed condition Ready. Reasons of ``stages``, of the serving revision, have Events already."""
    became_ready = ready.is_true and not ready.was_true
    if became_ready or ready.reason == Reason.WAITING_FOR_REMOVAL:
        yield _normal(ready.reason, Action.RECONCILE, ready.message)
    elif _stage_event(ready.reason) is EventType.WARNING and all(s.get("reason") != ready.reason for s in stages):
        yield _warning(ready.reason, Action.ROLL_OUT, ready.message)


@dataclass(frozen=True, kw_only=True)
class _Change:
    """A condition whose status or reason has changed; ``was_true`` is false for a new condition."""

    was_true: bool
    is_true: bool
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
                    was_true=old.get("status") == "True",
                    is_true=condition.get("status") == "True",
                    reason=str(condition.get("reason")),
                    message=str(condition.get("message")),
                ),
            )


def _stage_event(reason: str | None) -> EventType | None:
    """Type of the Event for a reason of a stage; None for no Event, or if only another version knows the reason."""
    return next((known.traits.event for known in Reason if known == reason), None)


def _normal(reason: str, action: Action, note: str) -> StatusEvent:
    return _event(EventType.NORMAL, reason, action, note)


def _warning(reason: str, action: Action, note: str) -> StatusEvent:
    return _event(EventType.WARNING, reason, action, note)


def _event(kind: EventType, reason: str, action: Action, note: str) -> StatusEvent:
    return StatusEvent(type=kind, reason=str(reason), action=action, note=_note(note))


def _note(text: str) -> str:
    """The text on one line, cut to the bytes that the API accepts."""
    encoded = one_line(text, limit=MAX_NOTE).encode(errors="replace")
    if len(encoded) <= MAX_NOTE:
        return encoded.decode()
    return encoded[: MAX_NOTE - len(_CUT)].decode(errors="ignore") + _CUT.decode()

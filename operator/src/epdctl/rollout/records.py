"""The recorded specs of an object, in the order of time, and the one to which an undo returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from epd_operator.api.untyped import mapping
from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import revision_label
from epd_operator.plan.rollout.history import Record, content_of, record_in
from epdctl.rollout.changes import Change, changes_between
from epdctl.rollout.redacted import redacted
from epdctl.rollout.session import CommandError


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A recorded spec.

    Attributes:
        record: the record.
        created: when the spec was recorded first, in RFC 3339.
        is_present: whether it is the present spec of the object.
        changes: what differs from the record before; None for the first that is kept.
    """

    record: Record
    created: str
    is_present: bool
    changes: tuple[Change, ...] | None

    @property
    def number(self) -> int:
        """Its number: the highest is the latest."""
        return self.record.number

    @property
    def has_served(self) -> bool:
        """Whether requests could be answered with it."""
        return self.record.has_served

    def as_data(self) -> dict[str, Any]:
        """The entry for programs."""
        return {
            "number": self.number,
            "controllerRevision": self.record.name,
            "revision": revision_label(self.record.revision),
            "created": self.created,
            "present": self.is_present,
            "hasServed": self.has_served,
            "changes": None if self.changes is None else [change.as_data() for change in self.changes],
        }


def history_of(live: dict[str, Any], children: Sequence[dict[str, Any]]) -> tuple[Entry, ...]:
    """The records of an object, the latest last.

    Raises:
        CommandError: there are none.
    """
    dates = {str(child["metadata"]["name"]): str(child["metadata"].get("creationTimestamp")) for child in children}
    records = sorted(map(record_in, children), key=lambda record: (record.number, record.name))
    if not records:
        raise CommandError(
            f"there are no records of earlier specs of {live['metadata']['name']}: the operator writes them if it is "
            "running and has rights on ControllerRevisions"
        )
    present = comparable(live.get("spec"))
    # An undo gives the record of the restored spec a new number, so the present spec is the latest of its kind.
    index = max((n for n, record in enumerate(records) if comparable(record.content) == present), default=None)
    return tuple(
        Entry(
            record=record,
            created=dates[record.name],
            is_present=n == index,
            changes=changes_between(records[n - 1].content, record.content) if n else None,
        )
        for n, record in enumerate(records)
    )


def comparable(spec: Any) -> Any:
    """A spec without defaults and settings of rollouts, as the operator records it.

    Specs that are not valid in this version are compared as they are.
    """
    try:
        return content_of(EPDDeploymentSpec.model_validate(spec))
    except ValueError:
        return {key: value for key, value in mapping(spec).items() if key != "rollout"}


def entry_numbered(entries: Sequence[Entry], number: int) -> Entry:
    """The entry with a number.

    Raises:
        CommandError: there is none.
    """
    found = next((entry for entry in reversed(entries) if entry.number == number), None)
    if found is None:
        raise CommandError(
            f"there is no record {number}: there are {', '.join(str(entry.number) for entry in entries)}"
        )
    return found


def entry_before_present(entries: Sequence[Entry]) -> Entry:
    """The latest record that is not the present spec.

    Raises:
        CommandError: there is none.
    """
    found = next((entry for entry in reversed(entries) if not entry.is_present), None)
    if found is None:
        raise CommandError("there is no earlier spec: only the present one is recorded")
    return found


def shown_spec(entry: Entry, *, with_values: bool) -> Any:
    """The whole recorded spec; values that may be secret are replaced unless they are asked for."""
    return entry.record.content if with_values else redacted(entry.record.content)

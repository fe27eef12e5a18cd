"""The records of the specs that an object has had: a ControllerRevision each, as StatefulSets have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from epd_operator.objects.identity import REVISION_LABEL, revision_label
from epd_operator.objects.kinds import CONTROLLER_REVISION
from epd_operator.plan.children.child_kind import ChildContext, ChildKind
from epd_operator.plan.drift import DriftRules
from epd_operator.plan.rollout.history import HAS_SERVED, RETURNED, SERVES, TRAFFIC_STEP


def _records(context: ChildContext) -> Iterator[dict[str, Any]]:
    """The present spec, those of revisions that have pods, and the latest others."""
    identity = context.identity
    for record in context.rollout.records:
        labels = {**identity.labels(), REVISION_LABEL: revision_label(record.revision)}
        metadata = identity.metadata(record.name, labels=labels)
        marks = {
            HAS_SERVED: "true" if record.has_served else "",
            SERVES: "true" if record.serves else "",
            TRAFFIC_STEP: record.step,
            RETURNED: record.returned,
        }
        if any(marks.values()):
            metadata["annotations"] = {name: value for name, value in marks.items() if value}
        yield {
            "apiVersion": CONTROLLER_REVISION.api_version,
            "kind": CONTROLLER_REVISION.kind,
            "metadata": metadata,
            "data": {"spec": record.content},
            "revision": record.number,
        }


CONTROLLER_REVISIONS = ChildKind(
    kind=CONTROLLER_REVISION,
    build=_records,
    purpose="a record of each spec, for rollouts and for an undo",
    absence="pods of an earlier spec are replaced in place, and their requests are lost if old and new do not fit",
    drift=DriftRules(immutable_field="data"),
    optional=True,
)

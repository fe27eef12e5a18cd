"""The specs that an object has had, as ControllerRevisions, and the revision to which a spec belongs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from epd_operator.api.untyped import mapping
from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.topology import GPU_STAGES, StageName
from epd_operator.objects.digests import digest
from epd_operator.objects.identity import INITIAL_REVISION, StageKey, revision_in
from epd_operator.objects.kinds import CONTROLLER_REVISION
from epd_operator.plan.observation import KubernetesObject, Observation
from epd_operator.plan.rollout.compatibility import compatibility_key

HAS_SERVED = "epd.dev/has-served"
"""Annotation of the record of a spec with which every stage had a ready pod while its revision got the requests."""
SERVES = "epd.dev/serves"
"""Annotation of a record whose revision has pods and was given the requests."""
TRAFFIC_STEP = "epd.dev/traffic-step"
"""Annotation of the record of a spec whose revision gets a share of the traffic, or is about to: see `StepMark`."""
RETURNED = "epd.dev/returned"
"""Annotation of the record of a spec whose revision got a share, and must get no more requests: the reason."""
MAX_MARK = 512
"""Maximum length of these two annotations."""
_NAME_LENGTH = 10
_MAX_NUMBER = 2**63 - 2


@dataclass(frozen=True, kw_only=True)
class Record:
    """A spec that the object has had.

    Attributes:
        name: name of the ControllerRevision.
        revision: the revision whose pods it described.
        number: order in time; the highest is the latest.
        content: the spec, without the fields that `content_of` leaves out.
        has_served: whether requests could be answered with it.
        serves: whether its revision was given the requests, and has had pods ever since.
        step: the step of its share of the traffic, as `StepMark` writes it; empty if there is none.
        returned: why its revision gets no share any more; empty if that has not happened.
    """

    name: str
    revision: str
    number: int
    content: Any
    has_served: bool = False
    serves: bool = False
    step: str = ""
    returned: str = ""

    def spec(self) -> EPDDeploymentSpec | None:
        """The spec; None if it is not valid any more, or another client has changed it."""
        try:
            return EPDDeploymentSpec.model_validate(self.content)
        except ValueError:
            return None


def content_of(spec: EPDDeploymentSpec) -> dict[str, Any]:
    """The part of a spec that is recorded: what differs from the defaults, without the settings of rollouts.

    A new default of a later operator version thus makes no new record.
    """
    return spec.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True, exclude={"rollout"}, mode="json")


def recorded_specs(observation: Observation) -> list[Any]:
    """The recorded specs as they are at the API server."""
    return [record.content for record in records_of(observation)]


def records_of(observation: Observation) -> tuple[Record, ...]:
    """All records, the latest first."""
    found = (child for key, child in observation.children.items() if key.kind == CONTROLLER_REVISION.kind)
    return tuple(sorted(map(record_in, found), key=lambda record: (-record.number, record.name)))


def record_in(child: KubernetesObject) -> Record:
    """The record in a ControllerRevision."""
    metadata = child["metadata"]
    number, annotations = child.get("revision"), mapping(metadata.get("annotations"))
    return Record(
        name=str(metadata["name"]),
        revision=revision_in(mapping(metadata.get("labels"))),
        number=min(number, _MAX_NUMBER) if isinstance(number, int) else 0,
        content=mapping(child.get("data")).get("spec"),
        has_served=annotations.get(HAS_SERVED) == "true",
        serves=annotations.get(SERVES) == "true",
        step=str(annotations.get(TRAFFIC_STEP, ""))[:MAX_MARK],
        returned=str(annotations.get(RETURNED, ""))[:MAX_MARK],
    )


def record_of(
    spec: EPDDeploymentSpec, *, owner: str, records: Sequence[Record], serving: str | None, live: Collection[StageKey]
) -> Record:
    """The record of the present spec, which may not exist yet, with the revision to which the spec belongs.

    Args:
        spec: the present spec.
        owner: name of the object.
        records: all records, the latest first.
        serving: the revision that gets the requests; None if there is none yet.
        live: stages that have Deployments.
    """
    content = content_of(spec)
    name = f"{owner}-{digest(content, length=_NAME_LENGTH)}"
    known = next((record for record in records if record.name == name), None)
    latest = records[0].number if records else 0
    if known is None:
        revision = _revision_of(spec, records=records, serving=serving, live=live)
        return Record(name=name, revision=revision, number=latest + 1, content=content)
    is_latest = known.number == latest and sum(record.number == latest for record in records) == 1
    number = known.number if is_latest else latest + 1
    return replace(known, number=number, content=content)


def _revision_of(
    spec: EPDDeploymentSpec, *, records: Sequence[Record], serving: str | None, live: Collection[StageKey]
) -> str:
    """The revision with the same key, of the latest of its specs; otherwise a new one.

    Keys of recorded specs are calculated again, because a later operator version may calculate them in another way.
    """
    # Without records, the topology of the pods is all that is known of their spec: admission may have changed images.
    of_spec = {StageKey(name) for name in (StageName.FRONTEND, *GPU_STAGES[spec.topology])}
    if not records and serving in (None, INITIAL_REVISION) and of_spec.issuperset(live):
        return INITIAL_REVISION
    key = compatibility_key(spec)
    for record in _latest_of_revisions(records):
        recorded = record.spec()
        if recorded is not None and compatibility_key(recorded) == key:
            return record.revision
    return key


def _latest_of_revisions(records: Sequence[Record]) -> Iterator[Record]:
    seen: set[str] = set()
    for record in records:
        if record.revision not in seen:
            seen.add(record.revision)
            yield record


def kept_records(
    records: Sequence[Record], *, present: Record, live: Collection[str], limit: int, is_shared: bool = False
) -> Iterator[Record]:
    """The records to keep: of the present spec, the latest of each revision that has pods, and the latest others.

    Args:
        records: all records, the latest first.
        present: the record of the present spec.
        live: revisions that have Deployments.
        limit: number of others to keep.
        is_shared: whether the Service selects the pods of all revisions. Then the step says which of them is new.
    """
    yield present
    others = [record for record in records if record.name != present.name]
    needed = {record.name for record in _latest_of_revisions(others) if record.revision in live}
    needed |= {record.name for record in others if is_shared and record.step}
    for index, record in enumerate(others):
        if index < limit or record.name in needed:
            step = record.step if is_shared else ""
            yield replace(record, serves=record.serves and record.revision in live, step=step, returned="")

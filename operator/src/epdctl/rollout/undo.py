"""Restores a recorded spec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epd_operator.api.untyped import items, mapping
from epd_operator.cluster.errors import ConflictError
from epdctl.rollout.changes import Change, changes_between
from epdctl.rollout.records import Entry, comparable, entry_before_present, entry_numbered, history_of
from epdctl.rollout.session import CommandError, Session

_MAX_TRIES = 5
_GITOPS_LABELS = {
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
    "argocd.argoproj.io/instance": "Argo CD",
}
_GITOPS_ANNOTATIONS = {"argocd.argoproj.io/tracking-id": "Argo CD"}
_GITOPS_MANAGERS = {"kustomize-controller": "Flux", "helm-controller": "Flux", "argocd-controller": "Argo CD"}
"""Marks of objects that are applied from Git. Argo CD: https://argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking/"""


@dataclass(frozen=True, kw_only=True)
class Restored:
    """The result of an undo.

    Attributes:
        entry: the record to which the spec returns.
        changes: what differs from the spec before; empty if nothing was written.
        altered: what the API server keeps in another way than it is recorded, of the fields that this version knows.
        applied_by: the program that applies the object from Git; None if nothing shows one.
    """

    entry: Entry
    changes: tuple[Change, ...] = ()
    altered: tuple[Change, ...] = ()
    applied_by: str | None = None


async def undo(session: Session, *, number: int | None, dry_run: bool) -> Restored:
    """Set the spec back to a record, with a dry run at the API server first. ``spec.rollout`` stays as it is.

    Args:
        session: the object.
        number: number of the record; None for the latest that is not the present spec.
        dry_run: whether to stop after the dry run.

    Raises:
        CommandError: there is no such record, or another client changed the spec at the same time.
        ClusterError: the API server refuses the spec.
    """
    live = await session.read()
    entries = history_of(live, await session.read_records(live))
    entry = entry_before_present(entries) if number is None else entry_numbered(entries, number)
    # The API server sets its defaults in both, so nothing else differs, also if this version does not know all fields.
    answer = await _replace(session, live, content=entry.record.content, dry_run=True)
    changes = changes_between(live["spec"], answer["spec"])
    if changes and not dry_run:
        answer = await _replace(session, live, content=entry.record.content, dry_run=False)
    return Restored(
        entry=entry,
        changes=changes,
        altered=changes_between(comparable(entry.record.content), comparable(answer["spec"])),
        applied_by=gitops_tool(live),
    )


async def _replace(session: Session, live: dict[str, Any], *, content: Any, dry_run: bool) -> dict[str, Any]:
    """Replace the whole spec: a record leaves out defaults, so a patch would keep what it does not name.

    The operator's writes of the status change the resourceVersion as well, and are no reason to stop.
    """
    found = live
    for _ in range(_MAX_TRIES):
        try:
            return await session.replace(_with_spec(found, content), dry_run=dry_run)
        except ConflictError:
            found = await session.read()
            if _spec_version(found) != _spec_version(live):
                break
    raise CommandError(
        f"another client changed {session.name} at the same time, so nothing was written: look at it, then try again"
    )


def _spec_version(live: dict[str, Any]) -> tuple[Any, Any]:
    return live["metadata"].get("uid"), live["metadata"].get("generation")


def _with_spec(live: dict[str, Any], content: Any) -> dict[str, Any]:
    metadata = {key: value for key, value in live["metadata"].items() if key != "managedFields"}
    rollout = {key: value for key, value in mapping(live["spec"]).items() if key == "rollout"}
    return {**live, "metadata": metadata, "spec": {**mapping(content), **rollout}}


def gitops_tool(live: dict[str, Any]) -> str | None:
    """The program that applies the object from Git, or None if nothing shows one."""
    metadata = mapping(live.get("metadata"))
    managers = (manager.get("manager") for manager in items(metadata.get("managedFields")))
    found = (
        *(_GITOPS_LABELS.get(label) for label in mapping(metadata.get("labels"))),
        *(_GITOPS_ANNOTATIONS.get(annotation) for annotation in mapping(metadata.get("annotations"))),
        *(_GITOPS_MANAGERS.get(str(manager)) for manager in managers),
    )
    return next(filter(None, found), None)

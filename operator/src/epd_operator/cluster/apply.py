"""Carries out a plan: applies and deletes children, writes status."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import (
    ClusterError,
    ConflictError,
    FaultError,
    InvalidError,
    NotFoundError,
    RefusedError,
)
from epd_operator.objects.identity import controller_of
from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT, POD, SERVICE_ACCOUNT, Kind
from epd_operator.plan.children.registry import kind_named
from epd_operator.plan.drift import with_whole_spec
from epd_operator.plan.observation import ChildKey, ForeignOwner, Observation
from epd_operator.plan.planner import Plan
from epd_operator.plan.status.builder import is_unchanged

CHILD_MANAGER = "epd-operator"
STATUS_MANAGER = "epd-operator-status"
SEED_MANAGER = "epd-operator-seed"
DELETION_COST_MANAGER = "epd-operator-victims"
"""Names of field managers are part of the API: a change would orphan fields that were applied before."""


@dataclass(frozen=True, kw_only=True)
class ApplyResult:
    """What was written and what could not be, by child.

    Attributes:
        written: what was written, each in words such as ``Deployment tiny-pd``.
        taken: who else has an object of that name.
        refused: the API server's answer.
        fault: a failure among them that may pass soon.
    """

    written: tuple[str, ...] = ()
    taken: Mapping[ChildKey, ForeignOwner] = field(default_factory=dict)
    refused: Mapping[ChildKey, str] = field(default_factory=dict)
    fault: ClusterError | None = None


async def apply_plan(cluster: Cluster, *, plan: Plan, observation: Observation) -> ApplyResult:
    """Write what differs. One child that cannot be written does not keep the others from being written.

    Raises:
        ClusterError: the server is out of reach or busy, or somebody else wrote at the same time.
    """
    written = await _choose_victims(cluster, plan=plan)
    seeds = {ChildKey.of(first): first for first in plan.seeds}
    taken: dict[ChildKey, ForeignOwner] = {}
    unknown = _unknown(plan, observation=observation)
    refused: dict[ChildKey, ClusterError] = dict(unknown)
    for child in filter(lambda child: ChildKey.of(child) not in unknown, plan.apply):
        key = ChildKey.of(child)
        stranger = None if key in observation.children else await _stranger(cluster, child=child)
        if stranger is not None:
            taken[key] = stranger
            continue
        if _account_of(child) in taken:
            # Its pods would have the rights of a stranger's ServiceAccount.
            continue
        try:
            written += await _seed(cluster, first=seeds.get(key))
            live = observation.children.get(key)
            await (_make_anew if key in plan.replace else _apply)(cluster, child=child, live=live)
        except (RefusedError, FaultError) as error:
            refused[key] = error
        else:
            written.append(_words(key))
    for key in plan.delete:
        try:
            if await _delete(cluster, key, observation=observation):
                written.append(f"deletion of {_words(key)}")
        except (RefusedError, FaultError) as error:
            refused[key] = error
    for scale in plan.scale_statuses:
        await cluster.apply(kind_named(scale["kind"]), body=scale, field_manager=STATUS_MANAGER, subresource="status")
        written.append(f"status of {_words(ChildKey.of(scale))}")
    return ApplyResult(
        written=tuple(written),
        taken=taken,
        refused={key: error.message for key, error in refused.items()},
        fault=next((error for error in refused.values() if isinstance(error, FaultError)), None),
    )


def _unknown(plan: Plan, *, observation: Observation) -> dict[ChildKey, RefusedError]:
    """Children of kinds that cannot be read: they may be strangers', or as they should be."""
    keys = [ChildKey.of(child) for child in plan.apply]
    return {
        key: RefusedError(observation.unreadable[key.kind], request=f"LIST {key.kind}")
        for key in keys
        if key.kind in observation.unreadable
    }


async def _seed(cluster: Cluster, *, first: dict[str, Any] | None) -> list[str]:
    """Apply the first contents of a scale object, if there are any."""
    if first is None:
        return []
    # Under a manager of its own: the field stays when the child is applied without it, until others take it.
    await cluster.apply(kind_named(first["kind"]), body=first, field_manager=SEED_MANAGER)
    return [f"replicas of {_words(ChildKey.of(first))}"]


async def _choose_victims(cluster: Cluster, *, plan: Plan) -> list[str]:
    """Write deletion costs. A pod that has gone meanwhile, or cannot be written, is no reason not to shrink."""
    written = []
    for pod in plan.deletion_costs:
        with contextlib.suppress(ConflictError, FaultError, NotFoundError, RefusedError):
            await cluster.apply(POD, body=pod, field_manager=DELETION_COST_MANAGER)
            written.append(f"deletion cost of {_words(ChildKey.of(pod))}")
    return written


def _account_of(child: Mapping[str, Any]) -> ChildKey | None:
    """The ServiceAccount as which the pods of a child run; None where it has no pods."""
    if child["kind"] != DEPLOYMENT.kind:
        return None
    return ChildKey(SERVICE_ACCOUNT.kind, child["spec"]["template"]["spec"]["serviceAccountName"])


def _words(key: ChildKey) -> str:
    return f"{key.kind} {key.name}"


async def _delete(cluster: Cluster, key: ChildKey, *, observation: Observation) -> bool:
    """Delete a child; false if it is leaving already."""
    metadata = observation.children[key]["metadata"]
    if metadata.get("deletionTimestamp"):
        return False
    kind = kind_named(key.kind)
    await cluster.delete(kind, namespace=metadata["namespace"], name=key.name, uid=metadata["uid"])
    return True


async def _make_anew(cluster: Cluster, *, child: dict[str, Any], live: Mapping[str, Any] | None) -> None:
    """Delete a child that cannot be changed, and make it anew at once.

    Raises:
        ClusterError: the new one would not be accepted; then the old one stays, which is better than none.
    """
    kind, metadata = kind_named(child["kind"]), child["metadata"]
    trial = {**child, "metadata": {**metadata, "name": f"{metadata['name']}-trial"}}
    await cluster.apply(kind, body=trial, field_manager=CHILD_MANAGER, dry_run=True)
    if live is not None:
        place = {"namespace": metadata["namespace"], "name": metadata["name"]}
        await cluster.delete(kind, **place, uid=live["metadata"]["uid"])
    await cluster.apply(kind, body=child, field_manager=CHILD_MANAGER)


async def _apply(cluster: Cluster, *, child: dict[str, Any], live: Mapping[str, Any] | None) -> None:
    """Apply a child; where a stranger's edit of a child of ours stands in the way, undo that too."""
    kind = kind_named(child["kind"])
    try:
        await cluster.apply(kind, body=child, field_manager=CHILD_MANAGER)
    except InvalidError:
        place = {"namespace": child["metadata"]["namespace"], "name": child["metadata"]["name"]}
        if live is None or not await _own_whole_spec(cluster, kind, **place):
            raise
        await cluster.apply(kind, body=child, field_manager=CHILD_MANAGER)


async def write_status(cluster: Cluster, *, observation: Observation, status: dict[str, Any]) -> bool:
    """Write the status if it differs from the one that was observed; say whether it was written."""
    if is_unchanged(status, observation.status):
        return False
    identity = observation.identity
    body = {
        "apiVersion": EPD_DEPLOYMENT.api_version,
        "kind": EPD_DEPLOYMENT.kind,
        # The uid keeps the status of a deleted object from being written to its namesake.
        "metadata": {"name": identity.name, "namespace": identity.namespace, "uid": identity.uid},
        "status": status,
    }
    await cluster.apply(EPD_DEPLOYMENT, body=body, field_manager=STATUS_MANAGER, subresource="status")
    return True


async def _stranger(cluster: Cluster, *, child: dict[str, Any]) -> ForeignOwner | None:
    """Who has the object of this name, or None where it is free or ours. Forced apply would take it over."""
    key = ChildKey.of(child)
    live = await cluster.get(kind_named(key.kind), namespace=child["metadata"]["namespace"], name=key.name)
    if live is None:
        return None
    ours = child["metadata"]["ownerReferences"][0]
    owner = controller_of(live)
    if owner is None:
        return ForeignOwner(description="none")
    if owner["uid"] == ours["uid"]:
        return None
    namesake = owner["kind"] == ours["kind"] and owner["name"] == ours["name"]
    return ForeignOwner(description=f"{owner['kind']} {owner['name']}", terminating=namesake)


async def _own_whole_spec(cluster: Cluster, kind: Kind, *, namespace: str, name: str) -> bool:
    """Make the child's field manager the owner of every field that is set in the spec; false if it is already."""
    live = await cluster.get(kind, namespace=namespace, name=name)
    metadata = (live or {}).get("metadata", {})
    fields = with_whole_spec(metadata.get("managedFields", ()), manager=CHILD_MANAGER)
    if fields is None:
        return False
    body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "managedFields": fields}}
    await cluster.patch(kind, namespace=namespace, name=name, body=body)
    return True

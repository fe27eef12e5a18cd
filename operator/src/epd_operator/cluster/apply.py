"""Executes a plan: applies and deletes children, and writes status."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from epd_operator.cluster.apply_child import admitted_of, apply_child, recreate_child
from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import (
    ClusterError,
    ConflictError,
    FaultError,
    InvalidError,
    NotFoundError,
    RefusedError,
    TooLargeError,
    UnavailableError,
)
from epd_operator.objects.identity import Identity, controller_of
from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT, POD, SERVICE_ACCOUNT
from epd_operator.objects.pods import is_terminating
from epd_operator.plan.children.registry import kind_named
from epd_operator.plan.observation import Admitted, ChildKey, ForeignOwner, KubernetesObject, Observation
from epd_operator.plan.planner import Plan
from epd_operator.plan.status.builder import is_unchanged, with_foreign_conditions

logger = logging.getLogger(__name__)

STATUS_MANAGER = "epd-operator-status"
SEED_MANAGER = "epd-operator-seed"
DELETION_COST_MANAGER = "epd-operator-victims"
"""Further field managers of server-side apply; see `CHILD_MANAGER`.

Never change these names: a new manager would not own the fields that an earlier version applied, and could not remove
them.
"""


@dataclass(frozen=True, kw_only=True)
class ApplyResult:
    """Result of applying a plan.

    Attributes:
        written: a description of each write, such as ``Deployment tiny-pd``.
        foreign_owners: children whose name is used by an object of another owner.
        refused: children that the API server did not accept, with its message.
        fault: the first error among the refused children that may be temporary (FaultError), or None.
        admitted: what admission makes of the children that were applied; None if nothing.
        unchanged: children whose spec was not changed by the apply.
        evicted: pods that were evicted.
    """

    written: tuple[str, ...] = ()
    foreign_owners: Mapping[ChildKey, ForeignOwner] = field(default_factory=dict)
    refused: Mapping[ChildKey, str] = field(default_factory=dict)
    fault: ClusterError | None = None
    admitted: Mapping[ChildKey, Admitted | None] = field(default_factory=dict)
    unchanged: frozenset[ChildKey] = frozenset()
    evicted: tuple[str, ...] = ()


@dataclass(kw_only=True)
class _Progress:
    """What has been done so far, in the form of ``ApplyResult``."""

    written: list[str]
    refused: dict[ChildKey, ClusterError]
    foreign_owners: dict[ChildKey, ForeignOwner] = field(default_factory=dict)
    admitted: dict[ChildKey, Admitted | None] = field(default_factory=dict)
    unchanged: set[ChildKey] = field(default_factory=set)
    evicted: list[str] = field(default_factory=list)

    def add_applied(self, child: dict[str, Any], *, live: KubernetesObject | None, answer: KubernetesObject) -> None:
        """Note what the API server has made of a child."""
        key = ChildKey.of(child)
        self.admitted[key] = admitted_of(child, answer)
        before, after = (live or {}).get("metadata", {}), answer["metadata"]
        # Where admission changes fields back, the API server may store only a new time in metadata.managedFields.
        field = "generation" if "generation" in after else "resourceVersion"
        if field in after and before.get(field) == after[field]:
            self.unchanged.add(key)
        if before.get("resourceVersion", "") != after.get("resourceVersion"):
            self.written.append(_describe(key))

    def result(self) -> ApplyResult:
        return ApplyResult(
            written=tuple(self.written),
            foreign_owners=self.foreign_owners,
            refused={key: error.message for key, error in self.refused.items()},
            fault=next((error for error in self.refused.values() if isinstance(error, FaultError)), None),
            admitted=self.admitted,
            unchanged=frozenset(self.unchanged),
            evicted=tuple(self.evicted),
        )


async def apply_plan(cluster: Cluster, *, plan: Plan, observation: Observation) -> ApplyResult:
    """Write everything that differs from the plan. If one child cannot be written, the others still are.

    Raises:
        ClusterError: the API server is unreachable or busy, or another client changed an object at the same time.
    """
    progress = _Progress(
        written=await _write_deletion_costs(cluster, plan=plan),
        refused=dict(_unreadable_children(plan, observation=observation)),
    )
    await _apply_children(cluster, plan=plan, observation=observation, progress=progress)
    await _delete_children(cluster, plan=plan, observation=observation, progress=progress)
    for scale in plan.scale_statuses:
        await cluster.apply(kind_named(scale["kind"]), body=scale, field_manager=STATUS_MANAGER, subresource="status")
        progress.written.append(f"status of {_describe(ChildKey.of(scale))}")
    await _evict(cluster, plan=plan, progress=progress)
    return progress.result()


async def _apply_children(cluster: Cluster, *, plan: Plan, observation: Observation, progress: _Progress) -> None:
    seeds = {ChildKey.of(seed): seed for seed in plan.seeds}
    for child in plan.apply:
        key = ChildKey.of(child)
        if key in progress.refused:
            continue
        owner = None if key in observation.children else await _foreign_owner(cluster, child=child)
        if owner is not None:
            progress.foreign_owners[key] = owner
            continue
        if _service_account_of(child) in progress.foreign_owners:
            # The pods would run with the rights of a ServiceAccount of another owner.
            continue
        try:
            progress.written += await _apply_seed(cluster, seed=seeds.get(key))
            live = observation.children.get(key)
            answer = await (recreate_child if key in plan.recreate else apply_child)(cluster, child=child, live=live)
        except (RefusedError, FaultError) as error:
            progress.refused[key] = error
        else:
            progress.add_applied(child, live=live, answer=answer)


async def _delete_children(cluster: Cluster, *, plan: Plan, observation: Observation, progress: _Progress) -> None:
    for key in plan.delete:
        try:
            if await _delete(cluster, key, observation=observation):
                progress.written.append(f"deletion of {_describe(key)}")
        except (RefusedError, FaultError) as error:
            progress.refused[key] = error


def _unreadable_children(plan: Plan, *, observation: Observation) -> dict[ChildKey, RefusedError]:
    """Children of kinds that cannot be listed.

    They are not written: the existing object may belong to another owner, or may already be correct.
    """
    keys = [ChildKey.of(child) for child in plan.apply]
    return {
        key: RefusedError(observation.unreadable[key.kind], request=f"LIST {key.kind}")
        for key in keys
        if key.kind in observation.unreadable
    }


async def _apply_seed(cluster: Cluster, *, seed: dict[str, Any] | None) -> list[str]:
    """Apply the initial replicas of a scale object, if it does not exist yet."""
    if seed is None:
        return []
    # With a separate field manager the field remains when the child is applied without it. Later an autoscaler owns it.
    await cluster.apply(kind_named(seed["kind"]), body=seed, field_manager=SEED_MANAGER)
    return [f"replicas of {_describe(ChildKey.of(seed))}"]


async def _write_deletion_costs(cluster: Cluster, *, plan: Plan) -> list[str]:
    """Write deletion costs of pods. Errors of single pods are ignored: they must not prevent scaling down."""
    written = []
    for pod in plan.deletion_costs:
        with contextlib.suppress(ConflictError, FaultError, NotFoundError, RefusedError):
            await cluster.apply(POD, body=pod, field_manager=DELETION_COST_MANAGER)
            written.append(f"deletion cost of {_describe(ChildKey.of(pod))}")
    return written


async def _evict(cluster: Cluster, *, plan: Plan, progress: _Progress) -> None:
    """Evict workers that answer wrongly. If it is not possible now, the condition Ready still names them."""
    for eviction in plan.evictions:
        pod = eviction["metadata"]["name"]
        try:
            await cluster.evict(body=eviction)
        except (ConflictError, FaultError, NotFoundError, RefusedError, UnavailableError) as error:
            logger.warning("pod %s answers wrongly and is not evicted: %s", pod, error)
        else:
            progress.evicted.append(pod)
            progress.written.append(f"eviction of Pod {pod}")


def _service_account_of(child: Mapping[str, Any]) -> ChildKey | None:
    """The ServiceAccount of the child's pods, or None if it has no pods."""
    if child["kind"] != DEPLOYMENT.kind:
        return None
    return ChildKey(SERVICE_ACCOUNT.kind, child["spec"]["template"]["spec"]["serviceAccountName"])


def _describe(key: ChildKey) -> str:
    return f"{key.kind} {key.name}"


async def _delete(cluster: Cluster, key: ChildKey, *, observation: Observation) -> bool:
    """Delete a child. Returns false if it is already terminating."""
    live = observation.children[key]
    if is_terminating(live):
        return False
    metadata = live["metadata"]
    kind = kind_named(key.kind)
    await cluster.delete(kind, namespace=metadata["namespace"], name=key.name, uid=metadata["uid"])
    return True


async def write_status(cluster: Cluster, *, observation: Observation, status: dict[str, Any]) -> bool:
    """Write the status if it differs from the observed one. Returns whether it was written."""
    if is_unchanged(status, observation.status):
        return False
    identity = observation.identity
    body = {
        "apiVersion": EPD_DEPLOYMENT.api_version,
        "kind": EPD_DEPLOYMENT.kind,
        # If the object was deleted and created again, the uid makes the API server refuse this outdated status.
        "metadata": {"name": identity.name, "namespace": identity.namespace, "uid": identity.uid},
        "status": status,
    }
    try:
        written = await cluster.apply(EPD_DEPLOYMENT, body=body, field_manager=STATUS_MANAGER, subresource="status")
    except InvalidError:
        # Apply keeps the conditions of other clients, and there are too many of them.
        await _replace_status(cluster, identity=identity, live=observation.status, status=status)
        return True
    except TooLargeError as error:
        error.reword(
            "the status cannot be written, because it would make the EPDDeployment too large: shorten variables (env), "
            f"args and podTemplate in its spec, or move large values to a ConfigMap and refer to it: {error.message}"
        )
        raise
    live = written.get("status", {})
    if not is_unchanged(status, live):
        # Apply keeps all fields of other clients. Those in our part would cause a write in every reconcile.
        whole = with_foreign_conditions(status, live)
        await _replace_status(cluster, identity=identity, live=live, status=whole)
    return True


async def _replace_status(
    cluster: Cluster, *, identity: Identity, live: Mapping[str, Any], status: Mapping[str, Any]
) -> None:
    """Replace the whole status, also fields of other managers: in a merge patch, null removes a field."""
    body = {"metadata": {"uid": identity.uid}, "status": {**dict.fromkeys(live, None), **status}}
    place = {"namespace": identity.namespace, "name": identity.name}
    await cluster.patch(EPD_DEPLOYMENT, **place, body=body, subresource="status")


async def _foreign_owner(cluster: Cluster, *, child: dict[str, Any]) -> ForeignOwner | None:
    """The foreign owner of the object with the child's name; None if there is no such object or it is the child itself.

    Without this check, a forced apply would take over objects of other owners.
    """
    key = ChildKey.of(child)
    live = await cluster.get(kind_named(key.kind), namespace=child["metadata"]["namespace"], name=key.name)
    if live is None:
        return None
    expected = child["metadata"]["ownerReferences"][0]
    owner = controller_of(live)
    if owner is None:
        return ForeignOwner(description="none")
    if owner["uid"] == expected["uid"]:
        return None
    # An object of an earlier EPDDeployment with the same name: the garbage collector will remove it.
    is_predecessor = owner["kind"] == expected["kind"] and owner["name"] == expected["name"]
    return ForeignOwner(description=f"{owner['kind']} {owner['name']}", terminating=is_predecessor)

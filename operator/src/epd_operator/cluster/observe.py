"""Reads one EPDDeployment with its children and pods."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, NotFoundError, RefusedError
from epd_operator.objects.identity import DEPLOYMENT_LABEL, Identity, controller_uid
from epd_operator.objects.kinds import CONTROLLER_REVISION, DEPLOYMENT, EPD_DEPLOYMENT, POD, Kind
from epd_operator.plan.children.registry import CHILD_KINDS, OPTIONAL_KINDS
from epd_operator.plan.observation import ChildKey, Observation
from epd_operator.plan.rollout.views import live_revisions
from epd_operator.plan.workloads.progress import workload_of


async def read_primary(cluster: Cluster, *, namespace: str, name: str) -> dict[str, Any] | None:
    """The primary object: the EPDDeployment, or None if it does not exist any more."""
    return await cluster.get(EPD_DEPLOYMENT, namespace=namespace, name=name)


async def observe(cluster: Cluster, *, primary: dict[str, Any], now: datetime) -> Observation:
    """Read the children and pods of ``primary``, an EPDDeployment, at the time ``now``.

    They are read from the API server, not from a cache: a cache may lack the operator's last writes.

    Raises:
        ClusterError: a kind that is needed could not be listed.
    """
    metadata = primary["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    selector = f"{DEPLOYMENT_LABEL}={name}"
    unreadable: dict[str, ClusterError] = {}

    async def read(kind: Kind) -> list[dict[str, Any]]:
        try:
            return await cluster.list(kind, namespace=namespace, selector=selector)
        except (NotFoundError, RefusedError) as error:
            # A new version of the operator may run with an old ClusterRole, which lacks rights for new kinds, and an
            # API server may not serve a kind. The other children do not depend on these kinds, so they are still
            # reconciled.
            if kind not in OPTIONAL_KINDS:
                raise
            unreadable[kind.kind] = error
            return []

    *lists, pods = await asyncio.gather(*(read(kind) for kind in (*CHILD_KINDS, POD)))
    found = [child for children in lists for child in children]
    children = {ChildKey.of(child): child for child in found if controller_uid(child) == uid}
    workloads = {key.name for key in children if key.kind == DEPLOYMENT.kind}
    observation = Observation(
        identity=Identity(name=name, namespace=namespace, uid=uid),
        generation=int(metadata.get("generation", 1)),
        status=primary.get("status") or {},
        children=children,
        pods=tuple(pod for pod in pods if workload_of(pod) in workloads),
        unreadable={kind: error.message for kind, error in unreadable.items()},
        at=now,
    )
    without_records = unreadable.get(CONTROLLER_REVISION.kind)
    if without_records is not None and len(live_revisions(observation)) > 1:
        # Only the records say to which of them the spec belongs. Any change could stop the one that serves.
        raise without_records
    return observation

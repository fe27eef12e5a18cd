"""Reads one EPDDeployment with everything that belongs to it."""

from __future__ import annotations

import asyncio
from typing import Any

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.kinds import CHILD_KINDS, EPD_DEPLOYMENT, POD
from epd_operator.plan.identity import DEPLOYMENT_LABEL, Identity
from epd_operator.plan.observation import ChildKey, Observation


async def read_primary(cluster: Cluster, *, namespace: str, name: str) -> dict[str, Any] | None:
    """The EPDDeployment, or None if it is gone."""
    return await cluster.get(EPD_DEPLOYMENT, namespace=namespace, name=name)


async def observe(cluster: Cluster, *, primary: dict[str, Any]) -> Observation:
    """Children and pods of this incarnation. Everything is read live: a cache may lag behind what we wrote."""
    metadata = primary["metadata"]
    namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
    selector = f"{DEPLOYMENT_LABEL}={name}"
    *lists, pods = await asyncio.gather(
        *(cluster.list(kind, namespace=namespace, selector=selector) for kind in (*CHILD_KINDS, POD))
    )
    found = [child for children in lists for child in children]
    return Observation(
        identity=Identity(name=name, namespace=namespace, uid=uid),
        generation=int(metadata.get("generation", 1)),
        status=primary.get("status") or {},
        children={ChildKey.of(child): child for child in found if controller_uid(child) == uid},
        pods=tuple(pods),
    )


def controller_uid(child: dict[str, Any]) -> str | None:
    """The incarnation that controls the object, or None."""
    for reference in child["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return None

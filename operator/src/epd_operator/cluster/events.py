"""Kubernetes Events about an EPDDeployment: what ``kubectl describe`` shows below the object."""

from __future__ import annotations

from datetime import datetime

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.kinds import EPD_DEPLOYMENT, EVENT
from epd_operator.plan.identity import Identity

CONTROLLER = "epd.dev/epd-operator"
MAX_NOTE = 1024


async def announce(
    cluster: Cluster, *, identity: Identity, reason: str, action: str, note: str, reporter: str, now: datetime
) -> None:
    """Write an Event of type Normal.

    Args:
        cluster: where.
        identity: the object that it is about.
        reason: one CamelCase word.
        action: what the operator did, one CamelCase word.
        note: the same for a person; cut to 1024 characters, the limit of the API.
        reporter: name of this instance of the operator.
        now: when.

    Raises:
        ClusterError: it could not be written.
    """
    body = {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"generateName": f"{identity.name}-", "namespace": identity.namespace},
        "type": "Normal",
        "reason": reason,
        "action": action,
        "note": note[:MAX_NOTE],
        "regarding": {
            "apiVersion": EPD_DEPLOYMENT.api_version,
            "kind": EPD_DEPLOYMENT.kind,
            "namespace": identity.namespace,
            "name": identity.name,
            "uid": identity.uid,
        },
        "reportingController": CONTROLLER,
        "reportingInstance": reporter[:128],
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    await cluster.create(EVENT, namespace=identity.namespace, body=body)

"""Kubernetes Events about an EPDDeployment: what ``kubectl describe`` shows below the object."""

from __future__ import annotations

from datetime import datetime

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, FencedError, NotFoundError, RefusedError
from epd_operator.objects.identity import Identity
from epd_operator.objects.kinds import EPD_DEPLOYMENT, EVENT
from epd_operator.plan.status.events import StatusEvent

CONTROLLER = "epd.dev/epd-operator"
MAX_REPORTER = 128


async def write_event(
    cluster: Cluster, *, identity: Identity, announcement: StatusEvent, reporter: str, now: datetime
) -> str:
    """Write an Event.

    Args:
        cluster: where.
        identity: the object that it is about.
        announcement: what it says.
        reporter: name of this instance of the operator.
        now: when it happened.

    Returns:
        Name of the Event.

    Raises:
        ClusterError: it could not be written.
    """
    body = {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"generateName": f"{identity.name}-", "namespace": identity.namespace},
        "type": announcement.type,
        "reason": announcement.reason,
        "action": announcement.action,
        "note": announcement.note,
        "regarding": {
            "apiVersion": EPD_DEPLOYMENT.api_version,
            "kind": EPD_DEPLOYMENT.kind,
            "namespace": identity.namespace,
            "name": identity.name,
            "uid": identity.uid,
        },
        "reportingController": CONTROLLER,
        "reportingInstance": reporter[:MAX_REPORTER],
        "eventTime": _micro_time(now),
    }
    written = await cluster.create(EVENT, namespace=identity.namespace, body=body)
    return str(written["metadata"]["name"])


async def raise_count(cluster: Cluster, *, namespace: str, name: str, count: int, now: datetime) -> None:
    """Say that what an Event tells has happened again.

    Args:
        cluster: where.
        namespace: of the Event.
        name: of the Event.
        count: how often it has happened, at least twice; the API knows no series of one.
        now: when it last happened.

    Raises:
        NotFoundError: the Event has expired.
        ClusterError: it could not be written.
    """
    body = {"series": {"count": count, "lastObservedTime": _micro_time(now)}}
    await cluster.patch(EVENT, namespace=namespace, name=name, body=body)


def is_pointless(error: ClusterError) -> bool:
    """Whether an Event could not be written because its namespace is going or has gone, or others lead by now."""
    return isinstance(error, NotFoundError | FencedError) or (
        isinstance(error, RefusedError) and "because it is being terminated" in error.message
    )


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""Kubernetes Events about an EPDDeployment, which ``kubectl describe`` shows below the object."""

from __future__ import annotations

from datetime import datetime

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, FencedError, NotFoundError, RefusedError
from epd_operator.objects.identity import Identity
from epd_operator.objects.kinds import EPD_DEPLOYMENT, EVENT
from epd_operator.plan.status.status_events import StatusEvent

CONTROLLER = "epd.dev/epd-operator"
MAX_REPORTER = 128


async def create_event(
    cluster: Cluster, *, identity: Identity, event: StatusEvent, reporter: str, now: datetime
) -> str:
    """Create an Event.

    Args:
        cluster: the cluster to write to.
        identity: the object of the Event.
        event: type, reason and text of the Event.
        reporter: name of this replica of the operator.
        now: time of the Event.

    Returns:
        Name of the Event.

    Raises:
        ClusterError: the Event could not be created.
    """
    body = {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"generateName": f"{identity.name}-", "namespace": identity.namespace},
        "type": event.type,
        "reason": event.reason,
        "action": event.action,
        "note": event.note,
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


async def update_event_count(cluster: Cluster, *, namespace: str, name: str, count: int, now: datetime) -> None:
    """Increase the count of an existing Event, because the same happened again.

    Args:
        cluster: the cluster to write to.
        namespace: namespace of the Event.
        name: name of the Event.
        count: number of occurrences; at least 2, because the API does not accept a series of one.
        now: time of the last occurrence.

    Raises:
        NotFoundError: the Event has expired.
        ClusterError: the Event could not be updated.
    """
    body = {"series": {"count": count, "lastObservedTime": _micro_time(now)}}
    await cluster.patch(EVENT, namespace=namespace, name=name, body=body)


def can_be_dropped(error: ClusterError) -> bool:
    """Whether an Event that could not be written can be dropped.

    Its namespace is terminating or deleted, or this replica is not the leader any more.
    """
    return isinstance(error, NotFoundError | FencedError) or (
        isinstance(error, RefusedError) and "because it is being terminated" in error.message
    )


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

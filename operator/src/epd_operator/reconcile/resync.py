"""The resync: lists all EPDDeployments periodically, so that missed watch events have no lasting effect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError
from epd_operator.objects.identity import Key
from epd_operator.objects.kinds import EPD_DEPLOYMENT
from epd_operator.reconcile.queue import WorkQueue
from epd_operator.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

RESYNC_SECONDS = 300.0


async def resync(
    cluster: Cluster,
    *,
    queue: WorkQueue[Key],
    known: Callable[[], Collection[Key]],
    metrics: Metrics,
    namespaces: Sequence[str],
    random: Callable[[], float],
    clock: Callable[[], float],
    interval: float = RESYNC_SECONDS,
) -> None:
    """Add every object to the queue periodically, until cancelled.

    Args:
        cluster: where objects are listed.
        queue: where keys are added.
        known: keys of objects that existed when they were last reconciled. An object whose deletion the watch missed is
            not listed: its next reconcile finds that it does not exist.
        metrics: where the age of the last complete resync is exported.
        namespaces: the namespaces to list; an empty list means all.
        random: numbers from 0 to 1, for jitter.
        clock: monotonic time in seconds.
        interval: mean time between two resyncs, in seconds.
    """
    metrics.resync.completed(clock=clock)
    try:
        while True:
            complete = True
            for namespace in namespaces or (None,):
                complete &= await _add_all(cluster, queue=queue, known=known(), namespace=namespace)
            if complete:
                metrics.resync.completed(clock=clock)
            await asyncio.sleep(interval * (0.75 + random() / 2))
    finally:
        metrics.resync.stopped()


async def _add_all(cluster: Cluster, *, queue: WorkQueue[Key], known: Collection[Key], namespace: str | None) -> bool:
    """Add the objects of one namespace, or of all (None). False if they could not be listed."""
    try:
        items = await cluster.list(EPD_DEPLOYMENT, namespace=namespace)
    except ClusterError as error:
        # A namespace that cannot be listed must not prevent the resync of the others.
        logger.warning("resync of %s failed: %s", namespace or "all namespaces", error)
        return False
    listed = {Key(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items}
    for key in listed.union(key for key in known if namespace in (None, key.namespace)):
        queue.add(key)
    return True

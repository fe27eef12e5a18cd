"""The resync: lists all EPDDeployments from time to time, so that a missed watch event is healed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

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
    metrics: Metrics,
    namespaces: Sequence[str],
    random: Callable[[], float],
    clock: Callable[[], float],
    interval: float = RESYNC_SECONDS,
) -> None:
    """Add every object now and then: heals what watches missed. An empty list of namespaces means all."""
    metrics.resync.completed(clock=clock)
    try:
        while True:
            complete = True
            for namespace in namespaces or (None,):
                complete &= await _add_all(cluster, queue=queue, metrics=metrics, namespace=namespace)
            if complete:
                metrics.resync.completed(clock=clock)
            await asyncio.sleep(interval * (0.75 + random() / 2))
    finally:
        metrics.resync.stopped()


async def _add_all(cluster: Cluster, *, queue: WorkQueue[Key], metrics: Metrics, namespace: str | None) -> bool:
    """Add the objects of a namespace, or of all; say whether they could be read."""
    # Objects whose end the watch missed are in no list; a pass finds that they are gone.
    known = {key for key in metrics.objects.keys() if namespace in (None, key.namespace)}  # noqa: SIM118
    try:
        items = await cluster.list(EPD_DEPLOYMENT, namespace=namespace)
    except ClusterError as error:
        # One namespace that may not be read must not keep the others from being healed.
        logger.warning("resync of %s failed: %s", namespace or "all namespaces", error)
        return False
    for key in known.union(Key(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items):
        queue.add(key)
    return True

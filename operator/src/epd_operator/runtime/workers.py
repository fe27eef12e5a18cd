"""Workers take keys from the queue; the resync adds all of them now and then."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError
from epd_operator.cluster.kinds import EPD_DEPLOYMENT
from epd_operator.runtime.keys import Key
from epd_operator.runtime.logs import about
from epd_operator.runtime.metrics import Metrics
from epd_operator.runtime.reconciler import Reconciler
from epd_operator.runtime.workqueue import WorkQueue

logger = logging.getLogger(__name__)

RESYNC_SECONDS = 300.0


class Workers:
    """Runs passes until cancelled."""

    def __init__(
        self, *, queue: WorkQueue[Key], reconciler: Reconciler, metrics: Metrics, clock: Callable[[], float]
    ) -> None:
        self._queue = queue
        self._reconciler = reconciler
        self._metrics = metrics
        self._clock = clock
        self._numbers = itertools.count(1)

    async def run(self, count: int) -> None:
        """Run that many workers; more than a few bring nothing, the API server is the limit."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(count):
                    group.create_task(self._work())
        finally:
            self._metrics.objects.clear()

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            await self._pass(key)

    async def _pass(self, key: Key) -> None:
        started = self._clock()
        outcome = "error"
        with about(key, number=next(self._numbers)):
            try:
                result = await self._reconciler.reconcile(key)
            except ClusterError as error:
                delay = self._queue.failed(key, at_least=error.retry_after or 0.0)
                self._metrics.errors.labels(error=type(error).__name__.removesuffix("Error")).inc()
                logger.warning("%s; again in %.1f s", error, delay)
            except Exception:
                # A fault of ours in one object must not stop the others from being served.
                delay = self._queue.failed(key)
                self._metrics.errors.labels(error="Unexpected").inc()
                logger.exception("unexpected error; again in %.1f s", delay)
            else:
                outcome = result.outcome
                self._queue.done(key, again_after=result.again_after)
                self._metrics.writes.inc(len(result.written))
                if result.written:
                    logger.info("wrote %s", ", ".join(result.written))
            finally:
                self._metrics.reconcile_seconds.labels(outcome=outcome).observe(self._clock() - started)


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

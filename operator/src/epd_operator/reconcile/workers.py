"""Workers take keys from the queue and reconcile them."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable

from epd_operator.cluster.errors import ClusterError
from epd_operator.objects.identity import Key
from epd_operator.reconcile.queue import WorkQueue
from epd_operator.reconcile.reconciler import GONE, Reconciler
from epd_operator.telemetry.logs import log_context
from epd_operator.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)


class Workers:
    """Reconciles until cancelled."""

    def __init__(
        self, *, queue: WorkQueue[Key], reconciler: Reconciler, metrics: Metrics, clock: Callable[[], float]
    ) -> None:
        self._queue = queue
        self._reconciler = reconciler
        self._metrics = metrics
        self._clock = clock
        self._numbers = itertools.count(1)
        self._known: set[Key] = set()

    def known_keys(self) -> frozenset[Key]:
        """Objects that existed when they were last reconciled, or whose last reconcile failed."""
        return frozenset(self._known)

    async def run(self, count: int) -> None:
        """Run `count` workers until cancelled. More than a few are not faster, because the API server is the limit."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(count):
                    group.create_task(self._work())
        finally:
            self._known.clear()
            self._metrics.objects.clear()

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            await self._reconcile(key)

    async def _reconcile(self, key: Key) -> None:
        started = self._clock()
        outcome = "error"
        self._known.add(key)
        with log_context(key, number=next(self._numbers)):
            try:
                result = await self._reconciler.reconcile(key)
            except ClusterError as error:
                delay = self._queue.failed(key, at_least=error.retry_after or 0.0)
                self._metrics.errors.labels(error=type(error).__name__.removesuffix("Error")).inc()
                logger.warning("%s; retrying in %.1f s", error, delay)
            except Exception:
                # A bug that one object triggers must not prevent the reconciles of the others.
                delay = self._queue.failed(key)
                self._metrics.errors.labels(error="Unexpected").inc()
                logger.exception("unexpected error; retrying in %.1f s", delay)
            else:
                outcome = result.outcome
                self._queue.done(key, requeue_after=result.requeue_after)
                self._metrics.writes.inc(len(result.written))
                if outcome == GONE:
                    self._known.discard(key)
                if result.written:
                    logger.info("wrote %s", ", ".join(result.written))
            finally:
                self._metrics.reconcile_seconds.labels(outcome=outcome).observe(self._clock() - started)

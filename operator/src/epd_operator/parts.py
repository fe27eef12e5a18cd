"""Builds what only the leader runs."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from epd_operator import handlers
from epd_operator.cluster.client import Cluster
from epd_operator.cluster.discovery import until_served
from epd_operator.plan.events import of_decision
from epd_operator.plan.settings import Settings
from epd_operator.runtime.announcer import Announcer
from epd_operator.runtime.duty import Duty
from epd_operator.runtime.keys import Key
from epd_operator.runtime.metrics import Metrics
from epd_operator.runtime.reconciler import Reconciler, utc_now
from epd_operator.runtime.reports import Reports
from epd_operator.runtime.scaler import Scaler
from epd_operator.runtime.scaling_metrics import ScalingMetrics
from epd_operator.runtime.workers import Workers, resync
from epd_operator.runtime.workqueue import WorkQueue
from epd_operator.scrape.sources import Sources


def make_queue(*, metrics: Metrics, jitter: Callable[[], float]) -> WorkQueue[Key]:
    """The queue of keys, shown in the metrics."""
    # Not the loop's own time, which stands still while the loop is stuck.
    queue: WorkQueue[Key] = WorkQueue(clock=time.monotonic, random=jitter, on_wait=metrics.queue.observe_wait)
    metrics.queue.watch(queue)
    return queue


def make_duty(
    cluster: Cluster,
    *,
    sources: Sources,
    queue: WorkQueue[Key],
    metrics: Metrics,
    planning: Settings,
    namespaces: Sequence[str],
    workers: int,
    jitter: Callable[[], float],
    on_watching: Callable[[], object],
) -> Duty:
    """Watches, workers, scaler, announcer and resync; nothing runs yet."""
    clock = time.monotonic
    announcer = Announcer(
        cluster, count=metrics.events.observe, reporter=socket.gethostname(), clock=clock, now=utc_now
    )
    scaler = Scaler(
        sources=sources,
        wake=queue.add,
        announce=lambda identity, decision: announcer.announce(identity, of_decision(decision)),
        metrics=ScalingMetrics(metrics.registry),
        clock=clock,
        now=utc_now,
    )
    reconciler = Reconciler(
        cluster, settings=planning, scaling=scaler, reports=Reports(metrics=metrics.objects, announcer=announcer)
    )

    async def watch() -> None:
        served = await until_served(cluster, kinds=handlers.WATCHED_KINDS, namespaces=namespaces)
        async with asyncio.TaskGroup() as group:
            group.create_task(handlers.watch(queue=queue, namespaces=served, on_started=on_watching))
            left = [namespace for namespace in namespaces if namespace not in served]
            if left:
                came = await until_served(cluster, kinds=handlers.WATCHED_KINDS, namespaces=left)
                raise RuntimeError(f"kopf does not begin to watch later: {', '.join(came)}")

    return Duty(
        passes=queue,
        jobs=[
            partial(Workers(queue=queue, reconciler=reconciler, metrics=metrics, clock=clock).run, workers),
            scaler.run,
            announcer.run,
            partial(resync, cluster, queue=queue, metrics=metrics, namespaces=namespaces, random=jitter, clock=clock),
        ],
        watch=watch,
    )

"""Builds what only the leader runs."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from epd_operator import handlers
from epd_operator.cluster.client import Cluster
from epd_operator.cluster.discovery import missing_kinds, until_served, until_served_too
from epd_operator.cluster.kinds import INDEPENDENT_KINDS, Kind
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

    return Duty(
        passes=queue,
        jobs=[
            partial(Workers(queue=queue, reconciler=reconciler, metrics=metrics, clock=clock).run, workers),
            scaler.run,
            announcer.run,
            partial(resync, cluster, queue=queue, metrics=metrics, namespaces=namespaces, random=jitter, clock=clock),
        ],
        watch=partial(_watch, cluster, queue=queue, namespaces=namespaces, on_watching=on_watching),
    )


async def _watch(
    cluster: Cluster, *, queue: WorkQueue[Key], namespaces: Sequence[str], on_watching: Callable[[], object]
) -> None:
    """Watch what can be watched.

    Raises:
        Exception: something else can be watched by now, or something cannot any more: begin anew.
    """
    needed = [kind for kind in handlers.WATCHED_KINDS if kind not in INDEPENDENT_KINDS]
    served = await until_served(cluster, kinds=needed, namespaces=namespaces)
    missing = await missing_kinds(cluster, kinds=INDEPENDENT_KINDS, namespaces=served)
    kinds = [kind for kind in handlers.WATCHED_KINDS if kind not in missing]
    async with asyncio.TaskGroup() as group:
        group.create_task(handlers.watch(queue=queue, namespaces=served, on_started=on_watching, kinds=kinds))
        if missing:
            group.create_task(_end_when_served(cluster, kinds=missing, namespaces=served))
        left = [namespace for namespace in namespaces if namespace not in served]
        if left:
            came = await until_served(cluster, kinds=needed, namespaces=left)
            raise RuntimeError(f"kopf does not begin to watch later: {', '.join(came)}")


async def _end_when_served(cluster: Cluster, *, kinds: Sequence[Kind], namespaces: Sequence[str]) -> None:
    kind = await until_served_too(cluster, kinds=kinds, namespaces=namespaces)
    raise RuntimeError(f"kopf does not begin to watch later: {kind.plural}")

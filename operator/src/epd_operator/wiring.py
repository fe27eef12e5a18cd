"""Builds what only the leader runs."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from epd_operator.autoscaler.loop import Autoscaler
from epd_operator.cluster.availability import missing_kinds, until_kind_listable, until_listable
from epd_operator.cluster.client import Cluster
from epd_operator.election.leader import LeaderTasks
from epd_operator.loads.sources import Sources
from epd_operator.objects.identity import Key
from epd_operator.objects.kinds import Kind
from epd_operator.plan.children.child_kind import Settings
from epd_operator.plan.children.registry import OPTIONAL_KINDS, WATCHED_KINDS
from epd_operator.plan.status.events import scaling_event
from epd_operator.reconcile.queue import WorkQueue
from epd_operator.reconcile.reconciler import Reconciler, utc_now
from epd_operator.reconcile.resync import resync
from epd_operator.reconcile.workers import Workers
from epd_operator.telemetry.events import EventRecorder
from epd_operator.telemetry.metrics import Metrics
from epd_operator.telemetry.reports import Reports
from epd_operator.telemetry.scaling_metrics import ScalingMetrics
from epd_operator.watch import kopf_watch


def make_queue(*, metrics: Metrics, jitter: Callable[[], float]) -> WorkQueue[Key]:
    """The queue of keys, shown in the metrics."""
    # Not the loop's own time, which stands still while the loop is stuck.
    queue: WorkQueue[Key] = WorkQueue(clock=time.monotonic, random=jitter, on_wait=metrics.queue.observe_wait)
    metrics.queue.watch(queue)
    return queue


def make_leader_tasks(
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
) -> LeaderTasks:
    """Watches, workers, scaler, announcer and resync; nothing runs yet."""
    clock = time.monotonic
    announcer = EventRecorder(
        cluster, count=metrics.events.observe, reporter=socket.gethostname(), clock=clock, now=utc_now
    )
    scaler = Autoscaler(
        sources=sources,
        enqueue=queue.add,
        record_event=lambda identity, decision: announcer.announce(identity, scaling_event(decision)),
        metrics=ScalingMetrics(metrics.registry),
        clock=clock,
        now=utc_now,
    )
    reconciler = Reconciler(
        cluster, settings=planning, scaling=scaler, reports=Reports(metrics=metrics.objects, announcer=announcer)
    )
    reconcilers = Workers(queue=queue, reconciler=reconciler, metrics=metrics, clock=clock)
    listing = partial(resync, cluster, queue=queue, known=reconcilers.known_keys, metrics=metrics)
    return LeaderTasks(
        passes=queue,
        jobs=[
            partial(reconcilers.run, workers),
            scaler.run,
            announcer.run,
            partial(listing, namespaces=namespaces, random=jitter, clock=clock),
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
    needed = [kind for kind in WATCHED_KINDS if kind not in OPTIONAL_KINDS]
    served = await until_listable(cluster, kinds=needed, namespaces=namespaces)
    missing = await missing_kinds(cluster, kinds=OPTIONAL_KINDS, namespaces=served)
    kinds = [kind for kind in WATCHED_KINDS if kind not in missing]
    async with asyncio.TaskGroup() as group:
        group.create_task(kopf_watch.watch(queue=queue, namespaces=served, on_started=on_watching, kinds=kinds))
        if missing:
            group.create_task(_end_when_served(cluster, kinds=missing, namespaces=served))
        left = [namespace for namespace in namespaces if namespace not in served]
        if left:
            came = await until_listable(cluster, kinds=needed, namespaces=left)
            raise RuntimeError(f"kopf does not begin to watch later: {', '.join(came)}")


async def _end_when_served(cluster: Cluster, *, kinds: Sequence[Kind], namespaces: Sequence[str]) -> None:
    kind = await until_kind_listable(cluster, kinds=kinds, namespaces=namespaces)
    raise RuntimeError(f"kopf does not begin to watch later: {kind.plural}")

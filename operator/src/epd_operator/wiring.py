"""Builds the tasks that only the leader runs."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from epd_operator.autoscaler.loop import Autoscaler
from epd_operator.cluster.availability import unlistable_kinds, wait_for_listable_kind, wait_until_listable
from epd_operator.cluster.client import Cluster
from epd_operator.election.leader import LeaderTasks
from epd_operator.loads.answered import read_answered
from epd_operator.loads.sources import Sources
from epd_operator.objects.identity import Key
from epd_operator.objects.kinds import Kind
from epd_operator.plan.children.child_kind import Settings
from epd_operator.plan.children.registry import OPTIONAL_KINDS, WATCHED_KINDS
from epd_operator.plan.status.status_events import scaling_event
from epd_operator.reconcile.crd_check import CrdCheck
from epd_operator.reconcile.node_check import NodeCheck
from epd_operator.reconcile.queue import WorkQueue
from epd_operator.reconcile.reconciler import Reconciler, utc_now
from epd_operator.reconcile.resync import resync
from epd_operator.reconcile.workers import Workers
from epd_operator.telemetry.event_recorder import EventRecorder
from epd_operator.telemetry.metrics import Metrics
from epd_operator.telemetry.reports import Reports
from epd_operator.telemetry.scaling_metrics import ScalingMetrics
from epd_operator.verification.ask import ask
from epd_operator.verification.canary import Canary
from epd_operator.verification.comparer import Comparer
from epd_operator.verification.survey import survey
from epd_operator.verification.verifier import Verifier
from epd_operator.watch import kopf_watch


def make_queue(*, metrics: Metrics, jitter: Callable[[], float]) -> WorkQueue[Key]:
    """The queue of keys, with its metrics."""
    # Not the clock of the event loop, which does not advance while the loop is blocked.
    queue: WorkQueue[Key] = WorkQueue(clock=time.monotonic, random=jitter, on_wait=metrics.queue.observe_wait)
    metrics.queue.watch(queue)
    return queue


def make_leader_tasks(
    cluster: Cluster,
    *,
    sources: Sources,
    queue: WorkQueue[Key],
    metrics: Metrics,
    settings: Settings,
    namespaces: Sequence[str],
    workers: int,
    check_nodes: bool,
    jitter: Callable[[], float],
    on_watch_started: Callable[[], object],
) -> LeaderTasks:
    """Build watches, workers, autoscaler, event recorder and resync. Nothing runs yet."""
    clock = time.monotonic
    recorder = EventRecorder(
        cluster, count=metrics.events.observe, reporter=socket.gethostname(), clock=clock, now=utc_now
    )
    autoscaler = Autoscaler(
        sources=sources,
        enqueue=queue.add,
        record_event=lambda identity, decision: recorder.record(identity, scaling_event(decision)),
        metrics=ScalingMetrics(metrics.registry),
        clock=clock,
        now=utc_now,
    )
    verifier = Verifier(ask=ask, enqueue=queue.add, clock=clock)
    canary = Canary(survey=survey, enqueue=queue.add, clock=clock)
    comparer = Comparer(read=read_answered, enqueue=queue.add, clock=clock)
    crds = CrdCheck(cluster, on_result=metrics.crds.observe)
    nodes = NodeCheck(cluster, enqueue=queue.add) if check_nodes else None
    reconciler = Reconciler(
        cluster,
        settings=settings,
        scaling=autoscaler,
        verification=verifier,
        canary=canary,
        comparer=comparer,
        reports=Reports(metrics=metrics.objects, recorder=recorder),
        crd_problem=crds.problem,
        nodes=nodes,
    )
    pool = Workers(queue=queue, reconciler=reconciler, metrics=metrics, clock=clock)
    listing = partial(resync, cluster, queue=queue, known=pool.known_keys, metrics=metrics)
    return LeaderTasks(
        queue=queue,
        jobs=[
            partial(pool.run, workers),
            autoscaler.run,
            verifier.run,
            canary.run,
            comparer.run,
            recorder.run,
            partial(crds.run, queue=queue, known=pool.known_keys, random=jitter),
            *([partial(nodes.run, random=jitter)] if nodes is not None else []),
            partial(listing, namespaces=namespaces, random=jitter, clock=clock),
        ],
        watch=partial(_watch, cluster, queue=queue, namespaces=namespaces, on_watch_started=on_watch_started),
    )


async def _watch(
    cluster: Cluster, *, queue: WorkQueue[Key], namespaces: Sequence[str], on_watch_started: Callable[[], object]
) -> None:
    """Watch all kinds and namespaces that can be listed now.

    Raises:
        Exception: another kind or namespace can be listed now, or a watched one cannot any more. The process must
            restart, because a running kopf cannot change what it watches.
    """
    required = [kind for kind in WATCHED_KINDS if kind not in OPTIONAL_KINDS]
    served = await wait_until_listable(cluster, kinds=required, namespaces=namespaces)
    missing = await unlistable_kinds(cluster, kinds=OPTIONAL_KINDS, namespaces=served)
    kinds = [kind for kind in WATCHED_KINDS if kind not in missing]
    async with asyncio.TaskGroup() as group:
        group.create_task(kopf_watch.watch(queue=queue, namespaces=served, on_started=on_watch_started, kinds=kinds))
        if missing:
            group.create_task(_raise_when_listable(cluster, kinds=missing, namespaces=served))
        unserved = [namespace for namespace in namespaces if namespace not in served]
        if unserved:
            now_served = await wait_until_listable(cluster, kinds=required, namespaces=unserved)
            raise RuntimeError(f"restart needed to watch more namespaces: {', '.join(now_served)}")


async def _raise_when_listable(cluster: Cluster, *, kinds: Sequence[Kind], namespaces: Sequence[str]) -> None:
    kind = await wait_for_listable_kind(cluster, kinds=kinds, namespaces=namespaces)
    raise RuntimeError(f"restart needed to watch another kind: {kind.plural}")

"""Starts the servers, each in its own thread, and runs the election and the leader tasks in one event loop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import uvloop

from epd_operator.cluster.client import Request, connect
from epd_operator.cluster.lease import ClusterLeaseStore
from epd_operator.election.elector import Elector, LeadershipLostError
from epd_operator.election.leader import LeaderTasks, run_while_leading, start_fence
from epd_operator.election.rules import Timing
from epd_operator.loads.sources import open_sources
from epd_operator.plan.children.child_kind import WORKER_ROLE, Settings
from epd_operator.reconcile.reconciler import utc_now
from epd_operator.telemetry.health import Health, HealthServer, export_health
from epd_operator.telemetry.logs import configure_logging
from epd_operator.telemetry.metrics import Metrics
from epd_operator.telemetry.scaling_metrics import PageMetrics
from epd_operator.telemetry.server import MetricsServer
from epd_operator.wiring import make_leader_tasks, make_queue

logger = logging.getLogger(__name__)

LEASE_NAME = "epd-operator"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Command-line options.

    An empty tuple of namespaces means all namespaces. An empty URL means that there is no Prometheus server.
    """

    namespaces: tuple[str, ...] = ()
    workers: int = 4
    metrics_port: int = 8080
    health_port: int = 8081
    log_level: str = "INFO"
    prometheus_url: str = ""
    worker_role: str = WORKER_ROLE
    check_nodes: bool = False
    leader_election: bool = False
    lease_name: str = LEASE_NAME
    lease_namespace: str = ""


def run(options: Options, *, jitter: Callable[[], float], suffix: str) -> int:
    """Run until a signal arrives. Returns the exit code, with which the process must exit at once.

    Args:
        options: command-line options.
        jitter: numbers between 0 and 1.
        suffix: random text, which makes the identity of this process unique among restarts of the same pod.
    """
    configure_logging(options.log_level)
    metrics, health = Metrics(), Health(clock=time.monotonic)
    MetricsServer(metrics.registry).start(options.metrics_port)
    HealthServer(health).start(options.health_port)
    # The runner is not closed: closing would wait for all tasks, and some of kopf may never end.
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        runner.run(_operate(options, metrics=metrics, health=health, jitter=jitter, suffix=suffix))
    except LeadershipLostError as lost:
        logger.error("leadership lost, exiting to restart as a standby: %s", lost)  # noqa: TRY400
    except Exception:
        logger.exception("unexpected error, exiting to restart")
    else:
        return 0
    return 1


async def _operate(
    options: Options, *, metrics: Metrics, health: Health, jitter: Callable[[], float], suffix: str
) -> None:
    stop = asyncio.Event()
    install_signal_handlers = partial(_install_signal_handlers, health=health, stop=stop)
    install_signal_handlers()

    def observe(request: Request) -> None:
        metrics.api.observe(request)
        health.answered(request.status)

    async with AsyncExitStack() as stack:
        elector = await _make_elector(options, stack, observe=observe, jitter=jitter, suffix=suffix)
        may_write = elector.is_leader if elector else lambda: True
        queue = make_queue(metrics=metrics, jitter=jitter)
        tasks = make_leader_tasks(
            await stack.enter_async_context(connect(on_request=observe, may_write=may_write)),
            sources=await stack.enter_async_context(
                open_sources(
                    prometheus_url=options.prometheus_url,
                    clock=time.monotonic,
                    wall_clock=time.time,
                    observe=PageMetrics(metrics.registry).observe_page,
                )
            ),
            queue=queue,
            metrics=metrics,
            settings=Settings(worker_role=options.worker_role),
            namespaces=options.namespaces,
            workers=options.workers,
            check_nodes=options.check_nodes,
            jitter=jitter,
            on_watch_started=install_signal_handlers,
        )
        health.longest_reconcile = queue.longest_reconcile
        export_health(health, leads=lambda: tasks.active and may_write(), registry=metrics.registry)
        beat = asyncio.create_task(health.beat())
        try:
            await _run_tasks(tasks, elector=elector, stop=stop)
        finally:
            beat.cancel()


async def _run_tasks(tasks: LeaderTasks, *, elector: Elector | None, stop: asyncio.Event) -> None:
    if elector is None:
        await tasks.run(stop)
        return
    start_fence(elector, tasks=tasks)
    await run_while_leading(elector, tasks=tasks, stop=stop)


async def _make_elector(
    options: Options,
    stack: AsyncExitStack,
    *,
    observe: Callable[[Request], None],
    jitter: Callable[[], float],
    suffix: str,
) -> Elector | None:
    if not options.leader_election:
        return None
    timing = Timing()
    # A separate connection pool: renewals must not wait for the requests of reconciles.
    cluster = await stack.enter_async_context(connect(on_request=observe, timeout=timing.request))
    return Elector(
        ClusterLeaseStore(cluster, namespace=options.lease_namespace, name=options.lease_name),
        identity=f"{socket.gethostname()}_{suffix}",
        clock=time.monotonic,
        now=utc_now,
        random=jitter,
        timing=timing,
    )


def _install_signal_handlers(*, health: Health, stop: asyncio.Event) -> None:
    def on_signal() -> None:
        health.stopping = True
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)

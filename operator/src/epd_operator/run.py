"""Puts the parts together and runs them in one event loop."""

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
from epd_operator.cluster.lease import ClusterLeases
from epd_operator.election.elector import Elector, LeadershipLostError
from epd_operator.election.leader import LeaderTasks, fence, run_while_leading
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
    """Command-line options; an empty tuple of namespaces means all, an empty address no Prometheus server."""

    namespaces: tuple[str, ...] = ()
    workers: int = 4
    metrics_port: int = 8080
    health_port: int = 8081
    log_level: str = "INFO"
    prometheus_url: str = ""
    worker_role: str = WORKER_ROLE
    leader_election: bool = False
    lease_name: str = LEASE_NAME
    lease_namespace: str = ""


def run(options: Options, *, jitter: Callable[[], float], suffix: str) -> int:
    """Run until a signal arrives; returns the exit code. The process must end then.

    Args:
        options: from the command line.
        jitter: numbers from 0 to 1.
        suffix: random text that tells this process from earlier ones of the same pod.
    """
    configure_logging(options.log_level)
    metrics, health = Metrics(), Health(clock=time.monotonic)
    MetricsServer(metrics.registry).start(options.metrics_port)
    HealthServer(health).start(options.health_port)
    # Not closed: that would wait for tasks which may never end.
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        runner.run(_operate(options, metrics=metrics, health=health, jitter=jitter, suffix=suffix))
    except LeadershipLostError as lost:
        logger.error("leadership is lost, so the process ends to begin anew as a standby: %s", lost)  # noqa: TRY400
    except Exception:
        logger.exception("the operator ends, to begin anew")
    else:
        return 0
    return 1


async def _operate(
    options: Options, *, metrics: Metrics, health: Health, jitter: Callable[[], float], suffix: str
) -> None:
    stop = asyncio.Event()
    take_signals = partial(_take_signals, health=health, stop=stop)
    take_signals()

    def observe(request: Request) -> None:
        metrics.api.observe(request)
        health.answered(request.status)

    async with AsyncExitStack() as stack:
        leadership = await _make_leadership(options, stack, observe=observe, jitter=jitter, suffix=suffix)
        may_write = leadership.may_work if leadership else lambda: True
        queue = make_queue(metrics=metrics, jitter=jitter)
        duty = make_leader_tasks(
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
            planning=Settings(worker_role=options.worker_role),
            namespaces=options.namespaces,
            workers=options.workers,
            jitter=jitter,
            on_watching=take_signals,
        )
        health.longest_pass = queue.longest_pass
        export_health(health, leads=lambda: duty.active and may_write(), registry=metrics.registry)
        beat = asyncio.create_task(health.beat())
        try:
            await _work(duty, leadership=leadership, stop=stop)
        finally:
            beat.cancel()


async def _work(duty: LeaderTasks, *, leadership: Elector | None, stop: asyncio.Event) -> None:
    if leadership is None:
        await duty.run(stop)
        return
    fence(leadership, duty=duty)
    await run_while_leading(leadership, duty=duty, stop=stop)


async def _make_leadership(
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
    # A connection of its own: renewals must not wait behind the requests of passes.
    cluster = await stack.enter_async_context(connect(on_request=observe, timeout=timing.request))
    return Elector(
        ClusterLeases(cluster, namespace=options.lease_namespace, name=options.lease_name),
        identity=f"{socket.gethostname()}_{suffix}",
        clock=time.monotonic,
        now=utc_now,
        random=jitter,
        timing=timing,
    )


def _take_signals(*, health: Health, stop: asyncio.Event) -> None:
    def on_signal() -> None:
        health.stopping = True
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)

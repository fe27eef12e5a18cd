"""Puts the parts together and runs them in one event loop."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kopf
import uvloop

from epd_operator import handlers
from epd_operator.cluster.client import connect, own_namespace
from epd_operator.plan.events import of_decision
from epd_operator.plan.settings import WORKER_ROLE, Settings
from epd_operator.runtime.announcer import Announcer
from epd_operator.runtime.keys import Key
from epd_operator.runtime.logs import configure_logging
from epd_operator.runtime.metrics import Metrics
from epd_operator.runtime.metrics_server import MetricsServer
from epd_operator.runtime.reconciler import Reconciler, utc_now
from epd_operator.runtime.reports import Reports
from epd_operator.runtime.scaler import Scaler
from epd_operator.runtime.scaling_metrics import ScalingMetrics
from epd_operator.runtime.workers import Workers, resync
from epd_operator.runtime.workqueue import WorkQueue
from epd_operator.scrape.metrics import ScrapeMetrics
from epd_operator.scrape.sources import open_sources

STUCK_SECONDS = 300.0
"""A pass that takes so long never comes back: restart. A long queue is no reason, it would only begin anew."""


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


def run(options: Options, *, jitter: Callable[[], float]) -> None:
    """Run until a signal arrives."""
    configure_logging(options.log_level)
    metrics = Metrics()
    MetricsServer(metrics.registry).start(options.metrics_port)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_operate(options, metrics=metrics, jitter=jitter))


async def _operate(options: Options, *, metrics: Metrics, jitter: Callable[[], float]) -> None:
    # Not the loop's own time, which stands still while the loop is stuck.
    clock = time.monotonic
    queue: WorkQueue[Key] = WorkQueue(clock=clock, random=jitter, on_wait=metrics.queue.observe_wait)
    metrics.queue.watch(queue)
    registry = kopf.OperatorRegistry()
    settings = kopf.OperatorSettings()
    handlers.configure(settings)
    handlers.register(registry, queue=queue)
    _register_login(registry)
    _register_probe(registry, queue=queue)
    async with (
        connect(on_request=metrics.api.observe) as cluster,
        open_sources(
            prometheus_url=options.prometheus_url,
            clock=clock,
            wall_clock=time.time,
            observe=ScrapeMetrics(metrics.registry).observe_page,
        ) as sources,
    ):
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
        planning = Settings(worker_role=options.worker_role, operator_namespace=own_namespace())
        reconciler = Reconciler(
            cluster, settings=planning, scaling=scaler, reports=Reports(metrics=metrics.objects, announcer=announcer)
        )
        workers = Workers(queue=queue, reconciler=reconciler, metrics=metrics, clock=clock)
        # kopf ends when a signal arrives or one of its watchers dies; the end of any task ends the process.
        tasks: list[asyncio.Task[Any]] = [
            asyncio.create_task(
                kopf.operator(
                    registry=registry,
                    settings=settings,
                    standalone=True,
                    # kopf would ask for the user's name, which a container's numeric user lacks.
                    identity=socket.gethostname(),  # type: ignore[arg-type]
                    clusterwide=not options.namespaces,
                    namespaces=options.namespaces,
                    liveness_endpoint=f"http://0.0.0.0:{options.health_port}/healthz",
                )
            ),
            asyncio.create_task(workers.run(options.workers)),
            asyncio.create_task(scaler.run()),
            asyncio.create_task(announcer.run()),
            asyncio.create_task(
                resync(cluster, queue=queue, metrics=metrics, namespaces=options.namespaces, random=jitter, clock=clock)
            ),
        ]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _register_login(registry: kopf.OperatorRegistry) -> None:
    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


def _register_probe(registry: kopf.OperatorRegistry, *, queue: WorkQueue[Key]) -> None:
    @kopf.on.probe(id="queue", registry=registry)
    async def probe(**_: Any) -> str:
        longest = queue.longest_pass()
        if longest > STUCK_SECONDS:
            raise kopf.PermanentError(f"a pass over one object has been going on for {longest:.0f} s")
        return f"{len(queue)} queued"

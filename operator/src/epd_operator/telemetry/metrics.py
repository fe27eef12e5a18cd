"""Metrics of the operator itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from epd_operator import __version__
from epd_operator.cluster.client import Request
from epd_operator.plan.status.status_events import StatusEvent
from epd_operator.telemetry.deployment_metrics import DeploymentMetrics
from epd_operator.telemetry.event_recorder import EventOutcome

WAIT_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """All metrics except those of scaling, metrics pages and health."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconcile_seconds = Histogram(
            "epd_operator_reconcile_duration_seconds",
            "Duration of one reconcile of one EPDDeployment, by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self.errors = Counter(
            "epd_operator_reconcile_errors_total",
            "Failed reconciles, by kind of error; Unexpected means an error in the operator.",
            ["error"],
            registry=self.registry,
        )
        self.writes = Counter(
            "epd_operator_reconcile_writes_total", "Objects written or deleted by reconciles.", registry=self.registry
        )
        self.api = ApiMetrics(self.registry)
        self.queue = QueueMetrics(self.registry)
        self.resync = ResyncMetrics(self.registry)
        self.events = EventMetrics(self.registry)
        self.crds = CrdMetrics(self.registry)
        self.objects = DeploymentMetrics()
        self.registry.register(self.objects)
        Info("epd_operator_build", "Version of the operator.", registry=self.registry).info({"version": __version__})


class ApiMetrics:
    """Requests to the API server, without the watches."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "epd_operator_api_requests_total",
            "Requests to the API server, by verb, kind and HTTP status (0 means no answer).",
            ["verb", "kind", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "epd_operator_api_request_duration_seconds",
            "Duration of a request to the API server until its answer was read, by verb.",
            ["verb"],
            registry=registry,
        )

    def observe(self, request: Request) -> None:
        """Count a request."""
        self._requests.labels(verb=request.verb, kind=request.kind, status=str(request.status)).inc()
        self._seconds.labels(verb=request.verb).observe(request.seconds)


class Queue(Protocol):
    """The queue of keys, as far as its metrics need it."""

    def __len__(self) -> int:
        """Number of keys that are waiting or being reconciled."""

    def overdue(self) -> float:
        """Seconds that the most overdue key has been due."""


class QueueMetrics:
    """Metrics of the queue. They are computed at each scrape, so they are correct even if the operator is blocked."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._depth = Gauge(
            "epd_operator_queue_depth", "EPDDeployments that are waiting or being reconciled.", registry=registry
        )
        self._overdue = Gauge(
            "epd_operator_queue_overdue_seconds",
            "Seconds that the most overdue EPDDeployment has been due.",
            registry=registry,
        )
        self._wait = Histogram(
            "epd_operator_queue_wait_seconds",
            "Seconds from when an EPDDeployment was due until its reconcile started.",
            buckets=WAIT_BUCKETS,
            registry=registry,
        )

    def watch(self, queue: Queue) -> None:
        """Export the metrics of this queue."""
        self._depth.set_function(lambda: len(queue))
        self._overdue.set_function(queue.overdue)

    def observe_wait(self, seconds: float) -> None:
        """Record the wait of a key that was taken from the queue."""
        self._wait.observe(seconds)


class ResyncMetrics:
    """The age of the last complete resync, computed at each scrape. NaN on a standby, which does no resyncs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._age = Gauge(
            "epd_operator_resync_age_seconds",
            "Seconds since the last complete resync, or since the first resync started; NaN on a standby.",
            registry=registry,
        )
        self.stopped()

    def completed(self, *, clock: Callable[[], float]) -> None:
        """Record that a resync is complete, or that the first one starts."""
        since = clock()
        self._age.set_function(lambda: clock() - since)

    def stopped(self) -> None:
        """Record that there are no more resyncs."""
        self._age.set_function(lambda: float("nan"))


class CrdMetrics:
    """Whether the CRDs are older than the operator. No series while this is not known."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._missing = Gauge(
            "epd_operator_crd_missing_fields",
            "Fields and values that the operator has and the CRD lacks. Above 0: the CRD is older than the operator.",
            ["crd"],
            registry=registry,
        )

    def observe(self, missing: Mapping[str, int]) -> None:
        """Record the number of fields that each CRD lacks, by its name."""
        self._missing.clear()
        for name, count in missing.items():
            self._missing.labels(crd=name).set(count)


class EventMetrics:
    """Kubernetes Events, by outcome."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._events = Counter(
            "epd_operator_events_total",
            "Events about EPDDeployments, by outcome: written, merged into an earlier Event, dropped because of limits "
            "or because they were obsolete, or failed.",
            ["type", "reason", "outcome"],
            registry=registry,
        )

    def observe(self, event: StatusEvent, outcome: EventOutcome) -> None:
        """Count an Event."""
        self._events.labels(type=event.type.value, reason=event.reason, outcome=outcome.value).inc()

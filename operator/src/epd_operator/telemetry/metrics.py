"""Metrics of the operator itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from epd_operator import __version__
from epd_operator.cluster.client import Request
from epd_operator.plan.status.events import StatusEvent
from epd_operator.telemetry.deployment_metrics import DeploymentMetrics
from epd_operator.telemetry.events import EventOutcome

WAIT_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """All metrics but those of scaling and scraping, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconcile_seconds = Histogram(
            "epd_operator_reconcile_duration_seconds",
            "Duration of one pass over one EPDDeployment, by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self.errors = Counter(
            "epd_operator_reconcile_errors_total",
            "Passes that failed, by the kind of the error; Unexpected is a fault of the operator.",
            ["error"],
            registry=self.registry,
        )
        self.writes = Counter(
            "epd_operator_reconcile_writes_total", "Objects written or deleted by passes.", registry=self.registry
        )
        self.api = ApiMetrics(self.registry)
        self.queue = QueueMetrics(self.registry)
        self.resync = ResyncMetrics(self.registry)
        self.events = EventMetrics(self.registry)
        self.objects = DeploymentMetrics()
        self.registry.register(self.objects)
        Info("epd_operator_build", "Version of the operator.", registry=self.registry).info({"version": __version__})


class ApiMetrics:
    """Requests to the API server, without those of the watches."""

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
    """The queue of keys, as its metrics see it."""

    def __len__(self) -> int:
        """Keys that wait or are being reconciled."""

    def overdue(self) -> float:
        """How long the longest waiting due key has waited, in seconds."""


class QueueMetrics:
    """The queue, as it is when somebody looks: a stuck or idle operator sets no gauge."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._depth = Gauge(
            "epd_operator_queue_depth", "EPDDeployments that wait for a pass or are in one.", registry=registry
        )
        self._overdue = Gauge(
            "epd_operator_queue_overdue_seconds",
            "How long the longest waiting EPDDeployment has been due.",
            registry=registry,
        )
        self._wait = Histogram(
            "epd_operator_queue_wait_seconds",
            "How long an EPDDeployment was due until its pass began.",
            buckets=WAIT_BUCKETS,
            registry=registry,
        )

    def watch(self, queue: Queue) -> None:
        """Show this queue."""
        self._depth.set_function(lambda: len(queue))
        self._overdue.set_function(queue.overdue)

    def observe_wait(self, seconds: float) -> None:
        """Count a key that was taken."""
        self._wait.observe(seconds)


class ResyncMetrics:
    """The age of the last complete resync, as it is when somebody looks; NaN where no resync is due, on a standby."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._age = Gauge(
            "epd_operator_resync_age_seconds",
            "Seconds since the last complete resync, or since resyncs began; NaN on a standby.",
            registry=registry,
        )
        self.stopped()

    def completed(self, *, clock: Callable[[], float]) -> None:
        """A resync is complete, or the first one begins."""
        since = clock()
        self._age.set_function(lambda: clock() - since)

    def stopped(self) -> None:
        """No more resyncs."""
        self._age.set_function(lambda: float("nan"))


class EventMetrics:
    """Events, by what became of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._events = Counter(
            "epd_operator_events_total",
            "Events about EPDDeployments: written, merged into an earlier one, dropped because they were too many or "
            "came too late, or failed.",
            ["type", "reason", "outcome"],
            registry=registry,
        )

    def observe(self, announcement: StatusEvent, outcome: EventOutcome) -> None:
        """Count an Event."""
        self._events.labels(type=announcement.type.value, reason=announcement.reason, outcome=outcome.value).inc()

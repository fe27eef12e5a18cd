"""Metrics of the operator itself."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from epd_operator import __version__


class Metrics:
    """All metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconcile_seconds = Histogram(
            "epd_operator_reconcile_duration_seconds",
            "Duration of one pass over one EPDDeployment, by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self.writes = Counter(
            "epd_operator_reconcile_writes_total", "Objects written or deleted by passes.", registry=self.registry
        )
        self.api_requests = Counter(
            "epd_operator_api_requests_total",
            "Requests to the API server, by verb, kind and HTTP status (0 means no answer).",
            ["verb", "kind", "status"],
            registry=self.registry,
        )
        self.queue_depth = Gauge(
            "epd_operator_queue_depth", "EPDDeployments that wait for a pass or are in one.", registry=self.registry
        )
        self.queue_overdue_seconds = Gauge(
            "epd_operator_queue_overdue_seconds",
            "How long the longest waiting EPDDeployment has been due.",
            registry=self.registry,
        )
        Info("epd_operator_build", "Version of the operator.", registry=self.registry).info({"version": __version__})

    def observe_request(self, verb: str, kind: str, status: int) -> None:
        """Count a request to the API server."""
        self.api_requests.labels(verb=verb, kind=kind, status=str(status)).inc()

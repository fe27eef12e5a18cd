"""Metrics about reading metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from epd_operator.plan.identity import StageName
from epd_operator.scrape.outcome import Outcome


class ScrapeMetrics:
    """Counts pages by outcome; `observe_page` is an observer for the scraper."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.pages = Counter(
            "epd_operator_scraped_pages_total",
            "Metrics pages of pods, by stage and outcome; every outcome but ok left a pod without values.",
            ["stage", "outcome"],
            registry=registry,
        )

    def observe_page(self, stage: StageName, outcome: Outcome) -> None:
        """Count a page."""
        self.pages.labels(stage=stage.value, outcome=outcome.value).inc()

"""The operator's metrics, from its own classes, as in normal operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import generate_latest

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.cluster.client import Request
from epd_operator.loads.fetch import PageOutcome
from epd_operator.objects.identity import Key, StageKey
from epd_operator.plan.status.reasons import ConditionType, Reason
from epd_operator.plan.status.status_events import Action, EventType, StatusEvent
from epd_operator.reconcile.queue import WorkQueue
from epd_operator.scaling.model import Decision, ScalingReason
from epd_operator.telemetry import event_recorder, health
from epd_operator.telemetry.deployment_metrics import DeploymentState
from epd_operator.telemetry.metrics import Metrics
from epd_operator.telemetry.scaling_metrics import PageMetrics, ScalingMetrics

GOOD = {
    ConditionType.READY: ("True", Reason.ALL_STAGES_READY),
    ConditionType.AVAILABLE: ("True", Reason.REQUESTS_ANSWERED),
    ConditionType.RECONCILING: ("False", Reason.SETTLED),
    ConditionType.STALLED: ("False", Reason.SETTLED),
}


def good_status(topology: str, stages: Mapping[StageName, int]) -> dict[str, Any]:
    """The status of a settled object."""
    return {
        "observedGeneration": 3,
        "topology": topology,
        "conditions": [{"type": kind, "status": status, "reason": reason} for kind, (status, reason) in GOOD.items()],
        "stages": [
            {"name": name, "desired": number, "ready": number, "updated": number} for name, number in stages.items()
        ],
    }


class OperatorMetrics:
    """The metrics of a leader that reconciles objects without problems."""

    def __init__(self, objects: Mapping[Key, tuple[str, Mapping[StageName, int]]]) -> None:
        """`objects` are their topologies and ready pods per stage."""
        self._objects = objects
        self._metrics = Metrics()
        self._scaling = ScalingMetrics(self._metrics.registry)
        self._scraping = PageMetrics(self._metrics.registry)
        self._metrics.queue.watch(WorkQueue(clock=lambda: 0.0, random=lambda: 0.0))
        health.export_health(health.Health(clock=lambda: 0.0), leads=lambda: True, registry=self._metrics.registry)

    def page(self) -> bytes:
        """The metrics page."""
        return generate_latest(self._metrics.registry)

    def work(self) -> None:
        """Record one round of all kinds of work, with an occasional error."""
        metrics = self._metrics
        metrics.resync.completed(clock=lambda: 0.0)
        for outcome in ("settled", "settled", "changed"):
            metrics.reconcile_seconds.labels(outcome=outcome).observe(0.02)
        metrics.errors.labels(error="Conflict").inc()
        metrics.writes.inc()
        metrics.queue.observe_wait(0.01)
        for verb, kind, status in (("GET", "EPDDeployment", 200), ("APPLY", "Deployment", 200), ("GET", "Pod", 404)):
            metrics.api.observe(Request(verb=verb, kind=kind, status=status, seconds=0.004))
        ready = StatusEvent(type=EventType.NORMAL, reason=Reason.ALL_STAGES_READY, action=Action.RECONCILE, note="x")
        metrics.crds.observe({"epddeployments.epd.dev": 0})
        metrics.events.observe(ready, event_recorder.EventOutcome.WRITTEN)
        for key, (topology, stages) in self._objects.items():
            state = DeploymentState(generation=3, model="tiny", status=good_status(topology, stages))
            metrics.objects.set_state(key, state)
            for stage, number in stages.items():
                self._scraping.observe_page(stage, PageOutcome.OK)
                if stage is not StageName.FRONTEND:
                    self._scaling.show(key, _decision(stage, replicas=number))


def _decision(stage: StageName, *, replicas: int) -> Decision:
    return Decision(
        stage=StageKey(stage),
        current=replicas,
        desired=replicas,
        reason=ScalingReason.WITHIN_TARGET,
        message="fine",
        signal="requests",
        value=3.0,
        target=4.0,
        metric_age_seconds=1.0,
    )

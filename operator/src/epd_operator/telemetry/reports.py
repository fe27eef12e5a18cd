"""Reports the results of reconciles in metrics and Events."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from epd_operator.objects.identity import Identity, Key
from epd_operator.plan.observation import KubernetesObject
from epd_operator.plan.status.status_events import StatusEvent, status_events
from epd_operator.telemetry.deployment_metrics import DeploymentMetrics, DeploymentState
from epd_operator.telemetry.event_recorder import EventRecorder

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Report:
    """Result of the reconcile of one object.

    Attributes:
        identity: the object.
        generation: generation of its spec.
        model: name of the model; empty if the spec is invalid.
        before: the status that the object had.
        status: the status that the reconcile computed.
    """

    identity: Identity
    generation: int
    model: str = ""
    before: KubernetesObject
    status: KubernetesObject


class ReportPort(Protocol):
    """Receives the progress of reconciles. Its methods must not raise errors."""

    def began(self, key: Key, *, generation: int, status: KubernetesObject) -> None:
        """The reconcile has read the object."""

    def computed(self, key: Key, report: Report) -> None:
        """The reconcile has computed a status. It is not written yet, and may equal the one before."""

    def wrote(self, key: Key, report: Report) -> None:
        """The reconcile has written a status that differs from the one before."""

    def noticed(self, identity: Identity, event: StatusEvent) -> None:
        """The reconcile has found something about the object that its status does not show."""

    def gone(self, key: Key) -> None:
        """The object was deleted."""


class Reports:
    """Reports reconciles in the metrics of deployments and in Events."""

    def __init__(self, *, metrics: DeploymentMetrics, recorder: EventRecorder) -> None:
        self._metrics = metrics
        self._recorder = recorder

    def began(self, key: Key, *, generation: int, status: KubernetesObject) -> None:
        """The reconcile has read the object."""
        self._metrics.start_reconcile(key, generation=generation, status=status)

    def computed(self, key: Key, report: Report) -> None:
        """The reconcile has computed a status."""
        state = DeploymentState(generation=report.generation, model=report.model, status=report.status)
        self._metrics.set_state(key, state)

    def wrote(self, key: Key, report: Report) -> None:  # noqa: ARG002 - the object is in the report
        """The reconcile has written a status that differs from the one before.

        Events are recorded only now. A status that cannot be written is computed again, and would
        cause the same Events again.
        """
        try:
            for event in status_events(report.before, report.status):
                self._recorder.record(report.identity, event)
        except Exception:
            # The old status may have any content. An error in Events must not fail the reconcile.
            logger.exception("the events of a status change could not be recorded")

    def noticed(self, identity: Identity, event: StatusEvent) -> None:
        """The reconcile has found something about the object that its status does not show."""
        self._recorder.record(identity, event)

    def gone(self, key: Key) -> None:
        """The object was deleted."""
        self._metrics.forget(key)
        self._recorder.forget(key)

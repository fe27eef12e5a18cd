"""Tells metrics and Events what passes find out."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from epd_operator.objects.identity import Identity, Key
from epd_operator.plan.observation import KubernetesObject
from epd_operator.plan.status.events import status_events
from epd_operator.telemetry.deployment_metrics import DeploymentMetrics, DeploymentState
from epd_operator.telemetry.events import EventRecorder

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a pass found out about an object.

    Attributes:
        identity: the object.
        generation: generation of its spec.
        model: name of the model; empty where the spec is invalid.
        before: the status that the object carried.
        status: the status that the pass computed.
    """

    identity: Identity
    generation: int
    model: str = ""
    before: KubernetesObject
    status: KubernetesObject


class ReportPort(Protocol):
    """Who is told of passes; must not raise."""

    def began(self, key: Key, *, generation: int, status: KubernetesObject) -> None:
        """A pass has read the object."""

    def computed(self, key: Key, report: Report) -> None:
        """A pass has computed a status, which may differ from the one before or not, and may not be written yet."""

    def wrote(self, key: Key, report: Report) -> None:
        """A pass has written a status that differs from the one before."""

    def gone(self, key: Key) -> None:
        """The object is gone."""


class Reports:
    """The reconciler's port to all that shows the state of objects."""

    def __init__(self, *, metrics: DeploymentMetrics, announcer: EventRecorder) -> None:
        self._metrics = metrics
        self._announcer = announcer

    def began(self, key: Key, *, generation: int, status: KubernetesObject) -> None:
        """A pass has read the object."""
        self._metrics.saw(key, generation=generation, status=status)

    def computed(self, key: Key, report: Report) -> None:
        """A pass has computed a status."""
        state = DeploymentState(generation=report.generation, model=report.model, status=report.status)
        self._metrics.show(key, state)

    def wrote(self, key: Key, report: Report) -> None:  # noqa: ARG002 - the object is in the report
        """A pass has written a status that differs from the one before.

        Only now is it told: a status that could not be written is computed again, and would be told again.
        """
        try:
            for announcement in status_events(report.before, report.status):
                self._announcer.announce(report.identity, announcement)
        except Exception:
            # Whatever an old status holds, no pass fails because of an Event.
            logger.exception("the change of status could not be told")

    def gone(self, key: Key) -> None:
        """The object is gone."""
        self._metrics.forget(key)
        self._announcer.forget(key)

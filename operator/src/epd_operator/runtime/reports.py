"""Tells metrics and Events what passes find out."""

from __future__ import annotations

import logging

from epd_operator.plan.events import announcements
from epd_operator.plan.observation import KubernetesObject
from epd_operator.runtime.announcer import Announcer
from epd_operator.runtime.keys import Key
from epd_operator.runtime.object_metrics import ObjectMetrics, ObjectState
from epd_operator.runtime.reconciler import Report

logger = logging.getLogger(__name__)


class Reports:
    """The reconciler's port to all that shows the state of objects."""

    def __init__(self, *, metrics: ObjectMetrics, announcer: Announcer) -> None:
        self._metrics = metrics
        self._announcer = announcer

    def began(self, key: Key, *, generation: int, status: KubernetesObject) -> None:
        """A pass has read the object."""
        self._metrics.saw(key, generation=generation, status=status)

    def computed(self, key: Key, report: Report) -> None:
        """A pass has computed a status."""
        state = ObjectState(generation=report.generation, model=report.model, status=report.status)
        self._metrics.show(key, state)

    def wrote(self, key: Key, report: Report) -> None:  # noqa: ARG002 - the object is in the report
        """A pass has written a status that differs from the one before.

        Only now is it told: a status that could not be written is computed again, and would be told again.
        """
        try:
            for announcement in announcements(report.before, report.status):
                self._announcer.announce(report.identity, announcement)
        except Exception:
            # Whatever an old status holds, no pass fails because of an Event.
            logger.exception("the change of status could not be told")

    def gone(self, key: Key) -> None:
        """The object is gone."""
        self._metrics.forget(key)
        self._announcer.forget(key)

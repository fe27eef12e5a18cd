"""Tells metrics what passes find out."""

from __future__ import annotations

from epd_operator.plan.observation import KubernetesObject
from epd_operator.runtime.keys import Key
from epd_operator.runtime.object_metrics import ObjectMetrics, ObjectState
from epd_operator.runtime.reconciler import Report


class Reports:
    """The reconciler's port to all that shows the state of objects."""

    def __init__(self, *, metrics: ObjectMetrics) -> None:
        self._metrics = metrics

    def began(self, key: Key, *, generation: int, status: KubernetesObject) -> None:
        """A pass has read the object."""
        self._metrics.saw(key, generation=generation, status=status)

    def computed(self, key: Key, report: Report) -> None:
        """A pass has computed a status."""
        state = ObjectState(generation=report.generation, model=report.model, status=report.status)
        self._metrics.show(key, state)

    def wrote(self, key: Key, report: Report) -> None:
        """A pass has written a status that differs from the one before."""

    def gone(self, key: Key) -> None:
        """The object is gone."""
        self._metrics.forget(key)

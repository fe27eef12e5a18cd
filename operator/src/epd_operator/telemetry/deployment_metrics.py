"""Metrics about each EPDDeployment, from the status that the last reconcile computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from epd_operator.objects.identity import Key
from epd_operator.objects.text import one_line

MAX_LABEL = 128
"""Maximum length of a label's value, in characters. Longer names of models are cut."""

_NAMES = ("namespace", "deployment")


@dataclass(frozen=True, kw_only=True)
class DeploymentState:
    """The exported state of one object.

    Attributes:
        generation: generation of the spec that the last reconcile read.
        model: name of the model.
        status: the status that the last reconcile computed.
    """

    generation: int
    model: str = ""
    status: Mapping[str, Any]


class DeploymentMetrics(Collector):
    """Series of all objects, built at each scrape.

    The thread of the metrics server reads while the event loop writes. So states are immutable, each reconcile replaces
    the whole state of its object, and the dictionary is copied in one step.
    """

    def __init__(self) -> None:
        self._states: dict[Key, DeploymentState] = {}

    def start_reconcile(self, key: Key, *, generation: int, status: Mapping[str, Any]) -> None:
        """Record that a reconcile read this generation. If there is no computed status yet, export the given one."""
        state = self._states.get(key) or DeploymentState(generation=generation, status=status)
        self._states[key] = replace(state, generation=generation)

    def set_state(self, key: Key, state: DeploymentState) -> None:
        """Record the status that a reconcile computed."""
        self._states[key] = state

    def forget(self, key: Key) -> None:
        """Remove the series of a deleted object."""
        self._states.pop(key, None)

    def clear(self) -> None:
        """Remove all series, because this replica does not reconcile any more."""
        self._states.clear()

    def collect(self) -> Iterator[Metric]:
        """All series."""
        families = _Families()
        for key, state in self._states.copy().items():
            families.add([key.namespace, key.name], state)
        yield from families.all


class _Families:
    def __init__(self) -> None:
        self._info = GaugeMetricFamily(
            "epd_deployment_info", "Topology and model of an EPDDeployment.", labels=(*_NAMES, "topology", "model")
        )
        self._condition = GaugeMetricFamily(
            "epd_deployment_condition",
            "Current conditions of an EPDDeployment, with their reasons.",
            labels=(*_NAMES, "type", "status", "reason"),
        )
        self._replicas = GaugeMetricFamily(
            "epd_deployment_stage_replicas",
            "Pods of a stage: desired, ready, and updated (from the current template).",
            labels=(*_NAMES, "stage", "state"),
        )
        self._generation = GaugeMetricFamily(
            "epd_deployment_generation", "Generation of the spec that the last reconcile read.", labels=_NAMES
        )
        self._observed = GaugeMetricFamily(
            "epd_deployment_observed_generation", "Generation of the spec that the status describes.", labels=_NAMES
        )
        self.all = (self._info, self._condition, self._replicas, self._generation, self._observed)

    def add(self, names: list[str], state: DeploymentState) -> None:
        status = state.status
        self._info.add_metric([*names, _label(status.get("topology")), _label(state.model)], 1)
        for condition in status.get("conditions", ()):
            self._condition.add_metric([*names, *(_label(condition.get(f)) for f in ("type", "status", "reason"))], 1)
        for stage in status.get("stages", ()):
            for count in ("desired", "ready", "updated"):
                self._replicas.add_metric([*names, _label(stage.get("name")), count], stage.get(count, 0))
        self._generation.add_metric(names, state.generation)
        self._observed.add_metric(names, status.get("observedGeneration", 0))


def _label(value: object) -> str:
    """The value of a label: on one line, of limited length, and valid UTF-8."""
    return one_line(value, limit=MAX_LABEL).encode(errors="replace").decode()

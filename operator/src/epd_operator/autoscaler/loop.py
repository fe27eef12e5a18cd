"""Decides the replicas of stages that the operator scales, and adds the key to the queue when a decision has changed.

The reconciler passes on its observation of an object (``update``), and reads the decisions (``decisions``). The loop
reads nothing from the API server: pods that are created, deleted or become ready cause a reconcile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.autoscaler.observe import stage_observations
from epd_operator.loads.latency import Mean, MeanLatency, StageTimes, encode_share
from epd_operator.loads.latest import LatestMeasurements
from epd_operator.loads.sources import Sources
from epd_operator.loads.targets import readiness_of, targets_of
from epd_operator.objects.identity import Identity, Key, StageKey
from epd_operator.plan.observation import Observation
from epd_operator.plan.replicas import is_internal, settings_of
from epd_operator.scaling.decision import decide_all
from epd_operator.scaling.model import Decision, PodLoad
from epd_operator.scaling.service_level import Latency
from epd_operator.scaling.state import StageState
from epd_operator.telemetry.logs import log_context
from epd_operator.telemetry.scaling_metrics import ScalingMetrics

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
CONCURRENT_ROUNDS = 16

RecordEvent = Callable[[Identity, Decision], None]
"""Records the Event of a changed number of replicas. It must not raise."""


def latency_of(measured: MeanLatency | None, times: StageTimes) -> Latency | None:
    """The measured latencies as the input of decisions, in seconds; None if nothing was measured."""
    if measured is None:
        return None
    return Latency(
        time_to_first_token=_seconds(measured.first_token),
        inter_token_latency=_seconds(measured.inter_token),
        encode=_seconds(encode_share(times, measured)),
        pd_queue=_seconds(times.queue),
        prefill=_seconds(times.prefill),
    )


def _seconds(mean: Mean | None) -> float | None:
    return mean.milliseconds / 1000 if mean else None


@dataclass(kw_only=True)
class _ScaledDeployment:
    """A deployment with at least one stage that the operator scales.

    Attributes:
        spec: the spec of the revision that serves, from the last reconcile.
        revision: the revision that serves.
        observation: its observed state, from the last reconcile.
        gpus_beside: GPUs of its other revisions.
        due: time of the next decision.
        states: states of the stages, for the next decision.
        decisions: the decisions that the reconciler uses.
    """

    spec: EPDDeploymentSpec
    revision: str
    observation: Observation
    gpus_beside: int
    due: float
    states: Mapping[StageKey, StageState] = field(default_factory=dict)
    decisions: dict[StageKey, Decision] = field(default_factory=dict)


class Autoscaler:
    """Keeps decisions in memory only: with a new instance, stages keep their replicas until the first decision."""

    def __init__(
        self,
        *,
        sources: Sources,
        enqueue: Callable[[Key], None],
        record_event: RecordEvent,
        metrics: ScalingMetrics,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._sources = sources
        self._enqueue = enqueue
        self._record_event = record_event
        self._metrics = metrics
        self._clock = clock
        self._now = now
        self._measurements: LatestMeasurements[Key] = LatestMeasurements()
        self._deployments: dict[Key, _ScaledDeployment] = {}
        self._running: set[Key] = set()

    def decisions(self, key: Key, *, identity: Identity) -> Mapping[StageKey, Decision]:
        """The last decisions for the object with this identity."""
        deployment = self._deployments.get(key)
        if deployment is None or deployment.observation.identity != identity:
            return {}
        return dict(deployment.decisions)

    def loads(self, key: Key) -> Mapping[str, float]:
        """Last measured number of requests of each pod; pods whose metrics could not be read are missing."""
        deployment = self._deployments.get(key)
        if deployment is None:
            return {}
        known = self._measurements.loads(key, pods=readiness_of(deployment.observation.pods))
        return {load.name: load.requests for load in known if load.requests is not None}

    def update(
        self, key: Key, *, spec: EPDDeploymentSpec, revision: str, observation: Observation, gpus_beside: int = 0
    ) -> None:
        """Use the spec of the revision that serves, and the observation of a reconcile, from now on.

        An object without a stage that the operator scales is dropped.
        """
        if not any(is_internal(spec, stage) for stage in StageName):
            self.forget(key)
            return
        deployment = self._deployments.get(key)
        if deployment is None or deployment.observation.identity != observation.identity:
            self.forget(key)
            self._deployments[key] = _ScaledDeployment(
                spec=spec,
                revision=revision,
                observation=observation,
                gpus_beside=gpus_beside,
                due=self._clock(),
            )
            return
        deployment.spec, deployment.revision, deployment.observation = spec, revision, observation
        deployment.gpus_beside = gpus_beside
        kept = {
            stage: decision
            for stage, decision in deployment.decisions.items()
            if stage.revision == revision and is_internal(spec, stage.name)
        }
        if len(kept) < len(deployment.decisions):
            self._metrics.forget(key, but=kept)
        deployment.decisions = kept

    def forget(self, key: Key) -> None:
        """Drop the state and the metrics of an object."""
        if self._deployments.pop(key, None) is not None:
            self._measurements.forget(key)
            self._metrics.forget(key)

    async def run(self) -> None:
        """Decide periodically until cancelled. Then drop all objects, because another replica takes over."""
        slots = asyncio.Semaphore(CONCURRENT_ROUNDS)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    for key in self._claim_due():
                        group.create_task(self._run_round(key, slots=slots))
                    await asyncio.sleep(TICK_SECONDS)
        finally:
            for key in tuple(self._deployments):
                self.forget(key)

    def _claim_due(self) -> list[Key]:
        now = self._clock()
        due = [
            key for key, deployment in self._deployments.items() if deployment.due <= now and key not in self._running
        ]
        self._running.update(due)
        return due

    async def _run_round(self, key: Key, *, slots: asyncio.Semaphore) -> None:
        with log_context(key):
            try:
                async with slots:
                    await self.round(key)
            except Exception:
                # A bug that one object triggers must not stop the scaling of the others.
                logger.exception("unexpected error in scaling; retrying at the next decision")
            finally:
                self._running.discard(key)

    async def round(self, key: Key) -> None:
        """Measure the pods of one object and decide."""
        deployment = self._deployments.get(key)
        if deployment is None:
            return
        deployment.due = self._clock() + deployment.spec.scaling.interval_seconds
        source, targets = deployment.spec.scaling.metrics_source, targets_of(deployment.observation.pods)
        readings = await self._sources.read(source, targets, namespace=key.namespace)
        if self._deployments.get(key) is not deployment:
            return
        self._measurements.record(key, readings)
        loads = self._measurements.loads(key, pods=readiness_of(deployment.observation.pods))
        self._decide(key, deployment, loads={load.name: load for load in loads})

    def _decide(self, key: Key, deployment: _ScaledDeployment, *, loads: Mapping[str, PodLoad]) -> None:
        spec = deployment.spec
        observations = stage_observations(
            spec,
            revision=deployment.revision,
            observation=deployment.observation,
            loads=loads,
            at=self._clock(),
            now=self._now(),
            metrics_error=self._sources.obstacle(spec.scaling.metrics_source),
        )
        settings = {o.stage: found.autoscaling for o in observations if (found := settings_of(spec, o.stage.name))}
        deployment.states, decisions = decide_all(
            deployment.states,
            observations,
            settings,
            spec.scaling,
            latency=latency_of(self._measurements.latency(key), self._measurements.stage_times(key)),
            service_level=spec.slo,
            gpus_beside=deployment.gpus_beside,
        )
        changed = []
        for decision in decisions:
            self._metrics.show(key, decision)
            before = deployment.decisions.get(decision.stage)
            if before is None or (before.desired, before.reason) != (decision.desired, decision.reason):
                deployment.decisions[decision.stage] = decision
                changed.append(decision)
        if changed:
            self._enqueue(key)
        for decision in changed:
            if decision.desired != decision.current:
                logger.info(
                    "scaling %s from %d to %d replicas: %s",
                    decision.stage,
                    decision.current,
                    decision.desired,
                    decision.message,
                )
                self._record_event(deployment.observation.identity, decision)

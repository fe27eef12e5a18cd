"""Decides the replicas of scaled stages, again and again, and wakes the reconciler when a decision changes.

The reconciler hands over what it saw of an object (``watch``) and takes the decisions back (``decisions``). Between
two passes nothing is read from the API server: pods that come, go or become ready cause a pass of their own.
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
from epd_operator.scaling.latency import Latency
from epd_operator.scaling.model import Decision, PodLoad
from epd_operator.scaling.state import StageState
from epd_operator.telemetry.logs import about
from epd_operator.telemetry.scaling_metrics import ScalingMetrics

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
CONCURRENT_ROUNDS = 16

Announce = Callable[[Identity, Decision], None]
"""Tells users of a changed number of replicas; must not raise."""


def latency_of(measured: MeanLatency | None, times: StageTimes) -> Latency | None:
    """Latencies as decisions take them, in seconds; None where nothing was measured."""
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
class _Subject:
    """A deployment with scaled stages: what was last seen of it, and what was decided."""

    spec: EPDDeploymentSpec
    observation: Observation
    due: float
    states: Mapping[StageKey, StageState] = field(default_factory=dict)
    published: dict[StageKey, Decision] = field(default_factory=dict)


class Autoscaler:
    """Keeps decisions in memory only: a new instance holds what stages have until it has measured."""

    def __init__(
        self,
        *,
        sources: Sources,
        wake: Callable[[Key], None],
        announce: Announce,
        metrics: ScalingMetrics,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._sources = sources
        self._wake = wake
        self._announce = announce
        self._metrics = metrics
        self._clock = clock
        self._now = now
        self._signals: LatestMeasurements[Key] = LatestMeasurements()
        self._subjects: dict[Key, _Subject] = {}
        self._running: set[Key] = set()

    def decisions(self, key: Key, *, identity: Identity) -> Mapping[StageKey, Decision]:
        """The last decisions for this incarnation of an object."""
        subject = self._subjects.get(key)
        if subject is None or subject.observation.identity != identity:
            return {}
        return dict(subject.published)

    def loads(self, key: Key) -> Mapping[str, float]:
        """Requests of each pod, as last measured; pods that could not be read are left out."""
        subject = self._subjects.get(key)
        if subject is None:
            return {}
        known = self._signals.loads(key, pods=readiness_of(subject.observation.pods))
        return {load.name: load.requests for load in known if load.requests is not None}

    def watch(self, key: Key, *, spec: EPDDeploymentSpec, observation: Observation) -> None:
        """Take over what a pass saw; objects without a stage to scale are forgotten."""
        if not any(is_internal(spec, stage) for stage in StageName):
            self.forget(key)
            return
        subject = self._subjects.get(key)
        if subject is None or subject.observation.identity != observation.identity:
            self.forget(key)
            self._subjects[key] = _Subject(spec=spec, observation=observation, due=self._clock())
            return
        subject.spec, subject.observation = spec, observation
        kept = {s: d for s, d in subject.published.items() if is_internal(spec, s.name)}
        if len(kept) < len(subject.published):
            self._metrics.forget(key, but=kept)
        subject.published = kept

    def forget(self, key: Key) -> None:
        """Drop everything about an object."""
        if self._subjects.pop(key, None) is not None:
            self._signals.forget(key)
            self._metrics.forget(key)

    async def run(self) -> None:
        """Make rounds until cancelled; then forget everything, because somebody else goes on."""
        slots = asyncio.Semaphore(CONCURRENT_ROUNDS)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    for key in self._take_due():
                        group.create_task(self._round_safely(key, slots=slots))
                    await asyncio.sleep(TICK_SECONDS)
        finally:
            for key in tuple(self._subjects):
                self.forget(key)

    def _take_due(self) -> list[Key]:
        now = self._clock()
        due = [key for key, subject in self._subjects.items() if subject.due <= now and key not in self._running]
        self._running.update(due)
        return due

    async def _round_safely(self, key: Key, *, slots: asyncio.Semaphore) -> None:
        with about(key):
            try:
                async with slots:
                    await self.round(key)
            except Exception:
                # A fault of ours at one object must not stop the scaling of the others.
                logger.exception("scaling failed")
            finally:
                self._running.discard(key)

    async def round(self, key: Key) -> None:
        """Measure the pods of one object and decide."""
        subject = self._subjects.get(key)
        if subject is None:
            return
        subject.due = self._clock() + subject.spec.scaling.interval_seconds
        source, targets = subject.spec.scaling.metrics_source, targets_of(subject.observation.pods)
        readings = await self._sources.read(source, targets, namespace=key.namespace)
        if self._subjects.get(key) is not subject:
            return
        self._signals.record(key, readings)
        loads = self._signals.loads(key, pods=readiness_of(subject.observation.pods))
        self._decide(key, subject, loads={load.name: load for load in loads})

    def _decide(self, key: Key, subject: _Subject, *, loads: Mapping[str, PodLoad]) -> None:
        spec = subject.spec
        observations = stage_observations(
            spec,
            observation=subject.observation,
            loads=loads,
            at=self._clock(),
            now=self._now(),
            metrics_error=self._sources.obstacle(spec.scaling.metrics_source),
        )
        settings = {o.stage: found.autoscaling for o in observations if (found := settings_of(spec, o.stage.name))}
        subject.states, decisions = decide_all(
            subject.states,
            observations,
            settings,
            spec.scaling,
            latency=latency_of(self._signals.latency(key), self._signals.stage_times(key)),
            service_level=spec.slo,
        )
        changed = []
        for decision in decisions:
            self._metrics.show(key, decision)
            before = subject.published.get(decision.stage)
            if before is None or (before.desired, before.reason) != (decision.desired, decision.reason):
                subject.published[decision.stage] = decision
                changed.append(decision)
        if changed:
            self._wake(key)
        for decision in changed:
            if decision.desired != decision.current:
                logger.info(
                    "%s from %d to %d: %s", decision.stage, decision.current, decision.desired, decision.message
                )
                self._announce(subject.observation.identity, decision)

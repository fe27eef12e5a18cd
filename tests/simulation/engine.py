"""Discrete events in virtual time: image requests pass the encoders and then PD, text goes to PD at once.

This model is for autoscalers: pods start and end, and a request has one given time in each stage. The simulator of the
product, epd_operator.advice.simulation, computes these times from batches and GPUs, for a fixed number of pods.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from simulation.cluster import Job, Stage, StageModel
from simulation.traffic import Request

ENCODER, PD = "encoder", "pd"
INTERVAL = 15.0
"""Time between two scrapes, each followed by a decision, in seconds."""
WAIT_BOUND = 10.0
"""A request that waits longer in queues violates the service level, in seconds."""
PATIENCE = 60.0
"""A client cancels its request after this wait in one queue, in seconds; that violates the service level too."""


class Scaler(Protocol):
    """An autoscaler to compare: called after each scrape."""

    def __call__(self, stages: Mapping[str, Stage], now: float, waits: list[Finished]) -> dict[str, int]:
        """Replicas of each stage."""
        ...


@dataclass(frozen=True)
class Finished:
    """A request that was served or cancelled; times in seconds."""

    at: float
    encoder_wait: float
    encode: float
    pd_wait: float
    gave_up: bool

    @property
    def violated(self) -> bool:
        """Whether it waited too long."""
        return self.gave_up or self.encoder_wait + self.pd_wait > WAIT_BOUND


@dataclass
class Result:
    """The result of a run."""

    finished: list[Finished] = field(default_factory=list)
    gpu_seconds: float = 0.0
    replicas: list[tuple[float, dict[str, int]]] = field(default_factory=list)

    @property
    def violations(self) -> float:
        """Share of requests that waited too long."""
        return sum(f.violated for f in self.finished) / len(self.finished)

    def of(self, stage: str) -> list[tuple[float, int]]:
        """Replicas of a stage over time."""
        return [(at, counts[stage]) for at, counts in self.replicas]

    def changes(self, stage: str) -> list[tuple[float, int]]:
        """When the replicas of a stage changed, and by how many."""
        series = self.of(stage)
        return [(b[0], b[1] - a[1]) for a, b in itertools.pairwise(series) if b[1] != a[1]]

    def peak(self, stage: str) -> int:
        """Highest number of replicas of a stage."""
        return max(count for _, count in self.of(stage))


class Simulation:
    """One run."""

    def __init__(
        self,
        traffic: list[Request],
        *,
        models: Mapping[str, StageModel],
        scaler: Scaler,
        seed: int,
        duration: float,
        metrics_lost: tuple[float, float] = (-1.0, -1.0),
        silent: str | None = None,
    ) -> None:
        self.traffic = traffic
        self.stages = {name: Stage(name, model, seed=seed, silent=name == silent) for name, model in models.items()}
        self.scaler = scaler
        self.duration = duration
        self.metrics_lost = metrics_lost
        self.result = Result()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._now = 0.0
        self._encoder_wait = [0.0] * len(traffic)

    def run(self) -> Result:
        """Process all events up to the end."""
        for number, request in enumerate(self.traffic):
            stage, work = (ENCODER, request.encode) if request.encode else (PD, request.decode)
            self._at(request.at, lambda n=number, s=stage, w=work: self._enter(s, n, w))
        tick = INTERVAL
        while tick <= self.duration:
            self._at(tick, self._tick)
            tick += INTERVAL
        self.result.replicas.append((0.0, {name: stage.wanted for name, stage in self.stages.items()}))
        while self._events and self._events[0][0] <= self.duration:
            self._now, _, action = heapq.heappop(self._events)
            action()
        for stage in self.stages.values():
            stage.close(self.duration)
        self.result.gpu_seconds = sum(stage.gpu_seconds for stage in self.stages.values())
        return self.result

    def _at(self, when: float, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (when, self._sequence, action))

    def _tick(self) -> None:
        lost = self.metrics_lost[0] <= self._now < self.metrics_lost[1]
        for stage in self.stages.values():
            if not lost:
                stage.scrape(self._now)
        wanted = self.scaler(self.stages, self._now, self.result.finished)
        for name, replicas in wanted.items():
            self.stages[name].scale(replicas, self._now)
        self.result.replicas.append((self._now, dict(wanted)))

    def _enter(self, name: str, number: int, work: float) -> None:
        stage = self.stages[name]
        pod = stage.least_loaded(self._now)
        if pod is None:
            self._finish(number, gave_up=True)
            return
        job = Job(number=number, work=work, since=self._now, pod=pod)
        if pod.running < stage.model.slots:
            self._start(name, job)
            return
        pod.waiting += 1
        pod.queue.append(job)
        self._at(self._now + PATIENCE, lambda: self._cancel(name, job))

    def _start(self, name: str, job: Job) -> None:
        assert job.pod is not None
        job.started = True
        job.pod.running += 1
        self._at(self._now + job.work, lambda: self._leave(name, job))
        wait = self._now - job.since
        if name == ENCODER:
            self._encoder_wait[job.number] = wait
        else:
            self._finish(job.number, pd_wait=wait)

    def _cancel(self, name: str, job: Job) -> None:
        if job.started:
            return
        assert job.pod is not None
        job.gone = True
        job.pod.waiting -= 1
        self._finish(job.number, gave_up=True)
        self.stages[name].forget_if_drained(job.pod, self._now)

    def _leave(self, name: str, job: Job) -> None:
        pod = job.pod
        assert pod is not None
        pod.running -= 1
        while pod.queue:
            following = pod.queue.popleft()
            if not following.gone:
                pod.waiting -= 1
                self._start(name, following)
                break
        self.stages[name].forget_if_drained(pod, self._now)
        if name == ENCODER:
            self._enter(PD, job.number, self.traffic[job.number].decode)

    def _finish(self, number: int, *, pd_wait: float = 0.0, gave_up: bool = False) -> None:
        waited = self._encoder_wait[number]
        encode = self.traffic[number].encode
        self.result.finished.append(
            Finished(at=self._now, encoder_wait=waited, encode=encode, pd_wait=pd_wait, gave_up=gave_up)
        )

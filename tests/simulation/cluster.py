"""A stage in virtual time: pods that start slowly, serve several requests at once, queue the rest, and drain."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class StageModel:
    """Parameters of the pods of a stage.

    Attributes:
        slots: requests that a pod works on at once.
        target: requests per pod that the autoscalers aim at.
        start_replicas: ready pods at the start.
        cold_start: from creation to ready, in seconds; each pod draws up to a tenth more or less.
        pending: the part of it before the pod runs, in seconds.
        gpus: GPUs of each pod.
        maximum: maxReplicas.
    """

    slots: int
    target: int
    start_replicas: int
    cold_start: float
    pending: float = 10.0
    gpus: int = 1
    maximum: int = 12


@dataclass
class Job:
    """A request inside a stage."""

    number: int
    work: float
    since: float
    pod: Pod | None = None
    started: bool = False
    gone: bool = False


@dataclass(eq=False)
class Pod:
    """One pod."""

    name: str
    created_at: float
    runs_at: float
    ready_at: float
    silent: bool = False
    draining: bool = False
    running: int = 0
    waiting: int = 0
    queue: deque[Job] = field(default_factory=deque)
    measured: float | None = None
    measured_at: float | None = None

    @property
    def load(self) -> int:
        """Running and waiting requests."""
        return self.running + self.waiting


class Stage:
    """The pods of one stage."""

    def __init__(self, name: str, model: StageModel, *, seed: int, silent: bool = False) -> None:
        self.name = name
        self.model = model
        self.wanted = model.start_replicas
        self.pods: list[Pod] = []
        self.gpu_seconds = 0.0
        self._source = random.Random(f"{seed}-{name}")
        self._made = 0
        for number in range(model.start_replicas):
            self._create(0.0, warm=True, silent=silent and number == 0)

    def _create(self, now: float, *, warm: bool = False, silent: bool = False) -> None:
        start = 0.0 if warm else self.model.cold_start * self._source.uniform(0.9, 1.1)
        runs = now if warm else now + self.model.pending
        name = f"{self.name}-{self._made}"
        self.pods.append(Pod(name=name, created_at=now, runs_at=runs, ready_at=now + start, silent=silent))
        self._made += 1

    def staying(self) -> list[Pod]:
        """Pods that are not draining."""
        return [pod for pod in self.pods if not pod.draining]

    def draining(self) -> int:
        """Number of draining pods."""
        return sum(pod.draining for pod in self.pods)

    def scale(self, wanted: int, now: float) -> None:
        """Create or drain pods: those that are not ready first, then the least loaded."""
        self.wanted = wanted
        staying = self.staying()
        for _ in range(wanted - len(staying)):
            self._create(now)
        deletion_order = sorted(staying, key=lambda pod: (pod.ready_at <= now, pod.load, -pod.created_at, pod.name))
        for pod in deletion_order[: max(0, len(staying) - wanted)]:
            pod.draining = True
            self.forget_if_drained(pod, now)

    def forget_if_drained(self, pod: Pod, now: float) -> None:
        """Remove a draining pod without requests, and count its GPU-seconds."""
        if pod.draining and pod.load == 0 and pod in self.pods:
            self.pods.remove(pod)
            self.gpu_seconds += (now - pod.created_at) * self.model.gpus

    def close(self, now: float) -> None:
        """Count the GPU-seconds of the remaining pods."""
        for pod in self.pods:
            self.gpu_seconds += (now - pod.created_at) * self.model.gpus
        self.pods = []

    def least_loaded(self, now: float) -> Pod | None:
        """Ready pod with the fewest requests; the router's choice."""
        ready = [pod for pod in self.pods if pod.ready_at <= now and not pod.draining]
        return min(ready, key=lambda pod: pod.running + pod.waiting, default=None)

    def scrape(self, now: float) -> None:
        """Read the metrics of every pod that answers."""
        for pod in self.pods:
            if pod.ready_at <= now and not pod.silent:
                pod.measured, pod.measured_at = float(pod.load), now

"""One process that works on the images of requests, one request after another.

An encoder prepares images on the CPU, then encodes them on the GPU. In Aggregated the process of the worker only
prepares them, and its engine encodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from epd_operator.advice.simulation.engine import Engine, Job, Schedule

Part = tuple[Job, float, float, float]
"""A request, or the part of it that this process gets: seconds on the CPU and on the GPU, bytes of the embeddings."""


class MediaProcess:
    """An encoder, or the process of a worker of Aggregated.

    Args:
        schedule: calls an action at a time.
        done: called with each part that is ready.
        beside: PD worker on the same GPU, if any.
        cpu_delay: how much longer steps of PD take while this process prepares images.
        gpu_delay: how much longer steps of PD take while this process encodes.
        gpu_delayed: how much longer this process encodes while PD works.
    """

    __slots__ = (
        "_beside",
        "_cpu_delay",
        "_delay",
        "_done",
        "_gpu_delay",
        "_gpu_delayed",
        "_queue",
        "_schedule",
        "busy",
        "load",
    )

    def __init__(
        self,
        *,
        schedule: Schedule,
        done: Callable[[float, Part], None],
        beside: Engine | None = None,
        cpu_delay: float = 0.0,
        gpu_delay: float = 0.0,
        gpu_delayed: float = 0.0,
    ) -> None:
        self.busy = 0.0
        self.load = 0
        self._queue: deque[Part] = deque()
        self._schedule = schedule
        self._done = done
        self._beside = beside
        self._cpu_delay = cpu_delay
        self._gpu_delay = gpu_delay
        self._gpu_delayed = gpu_delayed
        self._delay = 0.0

    def push(self, now: float, part: Part) -> None:
        """Images to work on."""
        self.load += 1
        if self.load == 1:
            self._start(now, part)
        else:
            self._queue.append(part)

    def _start(self, now: float, part: Part) -> None:
        job, cpu, gpu, _ = part
        job.media_start = now
        if self._beside is not None:
            if not self._beside.is_idle:
                gpu *= 1 + self._gpu_delayed
            # PD is slowed down by the mean over the whole time, so that CPU and GPU need no events of their own.
            seconds = cpu + gpu
            self._delay = (self._cpu_delay * cpu + self._gpu_delay * gpu) / seconds if seconds else 0.0
            if self._delay:
                self._beside.share(now, self._delay)
        self.busy += cpu + gpu
        self._schedule(now + cpu + gpu, self._end, part)

    def _end(self, now: float, part: Part) -> None:
        self.load -= 1
        if self._delay and self._beside is not None:
            self._beside.share(now, -self._delay)
        if self._queue:
            self._start(now, self._queue.popleft())
        self._done(now, part)

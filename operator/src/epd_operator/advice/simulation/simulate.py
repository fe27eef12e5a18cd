"""The run of a simulation: events in virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from epd_operator.advice.simulation.cache import EmbeddingCache
from epd_operator.advice.simulation.costs import Costs, Llm
from epd_operator.advice.simulation.engine import Action, Engine, Job, Schedule
from epd_operator.advice.simulation.layout import Layout
from epd_operator.advice.simulation.media import MediaProcess, Part
from epd_operator.advice.simulation.results import Result, Slo
from epd_operator.advice.simulation.traffic import Arrival, Keys, RandomSource
from epd_operator.advice.simulation.work import ImageWork, Work, context_seconds, split, step_seconds, work
from epd_operator.api.v1alpha1.stages import Routing
from epd_operator.api.v1alpha1.topology import Topology

Event = tuple[float, int, Action, Any]


def simulate(
    traffic: Iterable[Arrival],
    *,
    layout: Layout,
    costs: Costs,
    llm: Llm,
    source: RandomSource,
    slo: Slo | None = None,
    warm_up: float = 0.0,
) -> Result:
    """Run the traffic to the end of its last request.

    Args:
        traffic: requests in the order of their times.
        layout: what is deployed.
        costs: the constants of the model.
        llm: the model that is served.
        source: random numbers for the routing modes Random and PowerOfTwo.
        slo: what a good request keeps.
        warm_up: requests that arrive before this time are not counted.

    Raises:
        ValueError: the times of the requests are not in order.
    """
    return _Run(layout=layout, costs=costs, llm=llm, source=source, slo=slo or Slo(), warm_up=warm_up).run(traffic)


def _scheduler(events: list[Event]) -> Schedule:
    """What adds events. Those of the same time happen in the order in which they were added."""
    order = count()

    def schedule(at: float, action: Action, argument: Any) -> None:
        heappush(events, (at, next(order), action, argument))

    return schedule


class _Run:
    """State of a run."""

    def __init__(
        self, *, layout: Layout, costs: Costs, llm: Llm, source: RandomSource, slo: Slo, warm_up: float
    ) -> None:
        self.layout, self.costs, self.llm = layout, costs, llm
        self.result = Result()
        self._random = source.random
        self._slo, self._warm_up = slo, warm_up
        self._events: list[Event] = []
        self._schedule = _scheduler(self._events)
        self._works: dict[int, Work] = {}
        self._turn = self._encoder_turn = 0
        self._last_arrival = self._last_end = 0.0
        self._is_ending = False
        self._frontend_free = self._frontend_busy = 0.0
        self._is_aggregated = layout.topology is Topology.AGGREGATED
        self._engines = self._make_engines()
        self._link_free = [0.0] * layout.workers
        self._index = {id(engine): number for number, engine in enumerate(self._engines)}
        self._caches = [EmbeddingCache(layout.embedding_cache) for _ in self._engines] if layout.embedding_cache else []
        self._media = self._make_media_processes()

    def _make_engines(self) -> list[Engine]:
        layout = self.layout
        steps = step_seconds(layout=layout, costs=self.costs, llm=self.llm)
        context = context_seconds(layout=layout, costs=self.costs, llm=self.llm)
        shared = self.costs.pd_shared if layout.topology is Topology.CO_LOCATED else 0.0
        return [
            Engine(
                steps=steps,
                context_seconds=context,
                max_running=layout.max_running,
                max_tokens=layout.max_tokens,
                schedule=self._schedule,
                finished=self._finish,
                slowdown=1 + shared,
            )
            for _ in range(layout.workers)
        ]

    def _make_media_processes(self) -> list[MediaProcess]:
        """Encoders, or in Aggregated the processes of the workers, in the order of the workers."""
        costs, engines = self.costs, self._engines
        match self.layout.topology:
            case Topology.AGGREGATED:
                return [
                    MediaProcess(
                        schedule=self._schedule, done=self._prepared, beside=engine, cpu_delay=costs.pd_per_preparation
                    )
                    for engine in engines
                ]
            case Topology.CO_LOCATED:
                return [
                    MediaProcess(
                        schedule=self._schedule,
                        done=self._encoded,
                        beside=engines[number % len(engines)],
                        gpu_delay=costs.pd_per_encoder,
                        gpu_delayed=costs.encoder_shared,
                    )
                    for number in range(self.layout.encoders)
                ]
            case Topology.DISAGGREGATED:
                return [MediaProcess(schedule=self._schedule, done=self._encoded) for _ in range(self.layout.encoders)]

    def run(self, traffic: Iterable[Arrival]) -> Result:
        """Process all arrivals and events."""
        events = self._events
        for at, kind, keys in traffic:
            if at < self._last_arrival:
                raise ValueError(f"traffic: a request at {at:g} s comes after one at {self._last_arrival:g} s")
            ready = at + self.costs.request
            while events and events[0][0] <= ready:
                now, _, action, argument = heappop(events)
                action(now, argument)
            self._last_arrival = at
            found = self._works.get(id(kind))
            if found is None:
                found = work(kind, layout=self.layout, costs=self.costs, llm=self.llm)
                self._works[id(kind)] = found
            self._arrive(at, found, keys)
        self._is_ending = True
        while events:
            now, _, action, argument = heappop(events)
            action(now, argument)
        return self._close()

    # The way of a request

    def _arrive(self, at: float, found: Work, keys: Keys | None) -> None:
        job = Job(
            arrived=at, prompt=found.prompt, prefill=found.prefill, output=found.output, is_media=bool(found.images)
        )
        job.is_counted = at >= self._warm_up
        ready = at + self.costs.request
        decode, longest = found.frontend_decode
        if decode:
            # Frontends share their cores evenly: the requests before this one have to be done, then its longest image.
            cores = self.layout.frontends * self.layout.frontend_cores
            self._frontend_free = max(self._frontend_free, ready) + decode / cores
            self._frontend_busy += decode
            self._schedule(max(self._frontend_free, ready + longest), self._route, (job, found, keys))
        else:
            self._route(ready, (job, found, keys))

    def _route(self, now: float, routed: tuple[Job, Work, Keys | None]) -> None:
        job, found, keys = routed
        number = self._choose()
        engine = job.engine = self._engines[number]
        job.routed = job.media_start = job.media_done = now
        images = found.images
        if not images:
            engine.push(now, job)
            return
        self.result.images += len(images)
        parts = found.parts
        if keys is not None and self._caches:
            missing = self._missing(number, images, keys)
            if not missing:
                engine.push(now, job)
                return
            parts = split(missing, layout=self.layout)
        if self._is_aggregated:
            job.encode = parts[0].gpu
            self._media[number].push(now, (job, parts[0].cpu, 0.0, 0.0))
            return
        job.missing = len(parts)
        media = self._media
        for part in parts:
            self._encoder_turn = turn = (self._encoder_turn + 1) % len(media)
            media[turn].push(now, (job, part.cpu, part.gpu, part.size))

    def _missing(self, number: int, images: tuple[ImageWork, ...], keys: Keys) -> list[ImageWork]:
        cache, missing = self._caches[number], []
        for image, key in zip(images, keys, strict=True):
            if cache.has(key):
                self.result.cached_images += 1
            else:
                missing.append(image)
                cache.put(key, image.size)
        return missing

    def _prepared(self, now: float, part: Part) -> None:
        job = part[0]
        job.media_done = now
        job.engine.push(now, job)

    def _encoded(self, now: float, part: Part) -> None:
        job, _, _, size = part
        number = self._index[id(job.engine)]
        ready = now + self.costs.handover
        self._link_free[number] = max(self._link_free[number], ready) + size / self.layout.transfer_bandwidth
        job.missing -= 1
        if not job.missing:
            job.media_done = now
            self._schedule(self._link_free[number], job.engine.push, job)

    def _choose(self) -> int:
        engines = self._engines
        if len(engines) == 1:
            return 0
        mode = self.layout.routing
        if mode is Routing.ROUND_ROBIN:
            self._turn = (self._turn + 1) % len(engines)
            return self._turn
        first = int(self._random() * len(engines))
        if mode is Routing.RANDOM:
            return first
        if mode is Routing.POWER_OF_TWO:
            second = int(self._random() * len(engines))
            return first if engines[first].load <= engines[second].load else second
        return min(range(len(engines)), key=lambda number: engines[number].load)

    # Measurements

    def _finish(self, job: Job, now: float) -> None:
        self._last_end = now
        result, slo = self.result, self._slo
        ttft = job.first - job.arrived
        itl = (now - job.first) / (job.output - 1) if job.output > 1 else 0.0
        is_good = (slo.itl is None or itl < slo.itl) and (slo.ttft is None or ttft < slo.ttft)
        if is_good and now >= self._warm_up and not self._is_ending:
            result.good_while_loaded += 1
        if not job.is_counted:
            return
        result.good += is_good
        latencies = result.media if job.is_media else result.text
        latencies.ttft.append(ttft)
        latencies.itl.append(itl)
        latencies.e2e.append(now - job.arrived)
        phases = result.phases
        phases.frontend += job.routed - job.arrived
        phases.media_queue += job.media_start - job.routed
        phases.media += job.media_done - job.media_start
        phases.transfer += job.pushed - job.media_done
        phases.pd_queue += job.pd_start - job.pushed
        phases.prefill += job.first - job.pd_start
        result.prompt_tokens += job.prompt
        result.output_tokens += job.output

    def _close(self) -> Result:
        result, layout = self.result, self.layout
        result.elapsed = max(self._last_end, self._last_arrival)
        result.span = max(result.elapsed - self._warm_up, 0.0)
        result.loaded = max(self._last_arrival - self._warm_up, 0.0)
        if not result.elapsed:
            return result
        seconds = result.elapsed
        busy = [engine.busy for engine in self._engines]
        shares = {
            "frontend": self._frontend_busy / (layout.frontends * layout.frontend_cores),
            "media": sum(process.busy for process in self._media) / len(self._media),
            "PD encode": sum(one.encode for one in busy) / layout.workers,
            "PD prefill": sum(one.prefill for one in busy) / layout.workers,
            "PD decode": sum(one.decode for one in busy) / layout.workers,
        }
        result.utilisation = {stage: share / seconds for stage, share in shares.items()}
        return result

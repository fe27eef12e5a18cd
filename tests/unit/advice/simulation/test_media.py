"""Encoders, and the process that prepares images in a worker of Aggregated."""

from heapq import heappop, heappush
from typing import Any

import pytest

from epd_operator.advice.simulation.cache import EmbeddingCache
from epd_operator.advice.simulation.engine import Action, Job
from epd_operator.advice.simulation.media import MediaProcess


class Pd:
    """Records how much its steps are slowed down."""

    def __init__(self, *, is_idle: bool) -> None:
        self.is_idle = is_idle
        self.changes: list[tuple[float, float]] = []

    def share(self, now: float, change: float) -> None:
        self.changes.append((round(now, 6), round(change, 6)))


def run(parts: list[tuple[float, float, float]], *, pd: Pd | None = None, **delays: float) -> list[float]:
    """Push parts (time, seconds on the CPU, on the GPU); when each was ready."""
    events: list[tuple[float, int, Action, Any]] = []
    done: list[float] = []

    def schedule(at: float, action: Action, argument: Any) -> None:
        heappush(events, (at, len(events) + len(done) * 1000, action, argument))

    process = MediaProcess(
        schedule=schedule,
        done=lambda now, _: done.append(round(now, 6)),
        beside=pd,  # type: ignore[arg-type]
        **delays,
    )
    for at, cpu, gpu in parts:
        job = Job(arrived=at, prompt=1, prefill=0.0, output=1, is_media=True)
        schedule(at, process.push, (job, cpu, gpu, 0.0))
    while events:
        now, _, action, argument = heappop(events)
        action(now, argument)
    return done


def test_images_of_requests_are_encoded_one_request_after_the_other():
    assert run([(0.0, 1.0, 2.0), (0.5, 1.0, 2.0), (10.0, 1.0, 2.0)]) == [3.0, 6.0, 13.0]


def test_an_encoder_is_slower_while_pd_works_on_the_same_gpu():
    assert run([(0.0, 1.0, 2.0)], pd=Pd(is_idle=False), gpu_delayed=0.5) == [4.0]
    assert run([(0.0, 1.0, 2.0)], pd=Pd(is_idle=True), gpu_delayed=0.5) == [3.0]


def test_pd_is_slowed_down_by_the_part_of_the_time_in_which_the_gpu_encodes():
    pd = Pd(is_idle=True)
    run([(0.0, 1.0, 3.0)], pd=pd, gpu_delay=0.4)

    assert pd.changes == [(0.0, 0.3), (4.0, -0.3)]


def test_pd_is_slowed_down_while_its_own_process_prepares_images():
    pd = Pd(is_idle=False)
    run([(0.0, 2.0, 0.0)], pd=pd, cpu_delay=0.4)

    assert pd.changes == [(0.0, 0.4), (2.0, -0.4)]


@pytest.mark.parametrize("key", ["a", 1])
def test_an_image_is_cached_until_newer_ones_need_its_space(key: str | int):
    cache = EmbeddingCache(2.0)
    cache.put(key, 1.0)
    cache.put("b", 1.0)
    assert cache.has(key)

    cache.put("c", 1.0)

    assert (cache.has(key), cache.has("b"), cache.has("c")) == (True, False, True)


def test_an_image_larger_than_the_cache_is_not_cached_and_takes_no_other_out():
    cache = EmbeddingCache(2.0)
    cache.put("a", 2.0)
    cache.put("b", 3.0)

    assert (cache.has("a"), cache.has("b")) == (True, False)

"""One PD worker: batches of prefill, and continuous batching of decode."""

from heapq import heappop, heappush
from typing import Any

import pytest

from epd_operator.advice.simulation.engine import Action, Engine, Job

PREFILL, STEP = 1.0, 0.1


class World:
    """An engine with its events, and when its requests had their first and last token."""

    def __init__(self, *, max_running: int = 10, max_tokens: int = 1000, steps: list[float] | None = None) -> None:
        self.events: list[tuple[float, int, Action, Any]] = []
        self.number = 0
        self.ended: list[tuple[float, float]] = []
        self.engine = Engine(
            steps=steps or [0.0, *[STEP] * max_running],
            context_seconds=0.0,
            max_running=max_running,
            max_tokens=max_tokens,
            schedule=self.schedule,
            finished=lambda job, now: self.ended.append((round(job.first, 6), round(now, 6))),
        )

    def schedule(self, at: float, action: Action, argument: Any) -> None:
        self.number += 1
        heappush(self.events, (at, self.number, action, argument))

    def request(self, at: float, *, output: int = 11, prompt: int = 100, encode: float = 0.0) -> None:
        job = Job(arrived=at, prompt=prompt, prefill=PREFILL, output=output, is_media=False)
        job.encode = encode
        self.schedule(at, self.engine.push, job)

    def run(self) -> list[tuple[float, float]]:
        while self.events:
            now, _, action, argument = heappop(self.events)
            action(now, argument)
        return self.ended


def test_a_request_alone_is_prefilled_and_then_gets_one_token_per_step():
    world = World()
    world.request(0.0, output=11)

    assert world.run() == [(1.0, 2.0)]


def test_a_request_of_one_token_ends_with_its_prefill():
    world = World()
    world.request(0.0, output=1)

    assert world.run() == [(1.0, 1.0)]


def test_requests_that_wait_are_prefilled_together():
    world = World()
    for at in (0.0, 0.1, 0.2):
        world.request(at, output=1)

    assert world.run() == [(1.0, 1.0), (3.0, 3.0), (3.0, 3.0)]


def test_a_step_prefills_at_most_its_tokens():
    world = World(max_tokens=150)
    for at in (0.0, 0.1, 0.2):
        world.request(at, output=1, prompt=100)

    assert [first for first, _ in world.run()] == [1.0, 2.0, 3.0]


def test_a_prefill_begins_at_the_end_of_the_step_in_progress_and_delays_the_tokens_of_others():
    world = World()
    world.request(0.0, output=11)
    world.request(1.25, output=1)

    # Three tokens until 1.3, one in the step with the prefill until 2.4, the other six until 3.0.
    assert world.run() == [(2.4, 2.4), (1.0, 3.0)]


def test_encoding_in_the_engine_delays_the_tokens_of_others():
    world = World()
    world.request(0.0, output=11)
    world.request(1.3, output=1, encode=0.5)

    assert world.run() == [(2.9, 2.9), (1.0, 3.5)]


def test_a_long_prompt_is_prefilled_in_several_steps_in_which_others_get_tokens():
    world = World(max_tokens=100)
    world.request(0.0, output=11)
    world.request(1.3, output=1, prompt=300)

    # Three steps with a part of the prefill: three tokens for the first request.
    assert world.run() == [(2.6, 2.6), (1.0, 3.0)]


def test_no_more_requests_run_than_allowed():
    world = World(max_running=1)
    world.request(0.0, output=11)
    world.request(0.5, output=11)

    assert world.run() == [(1.0, 2.0), (3.0, 4.0)]


def test_steps_with_more_requests_take_longer():
    world = World(steps=[0.0, 0.1, 0.2, 0.3])
    world.request(0.0, output=11)
    world.request(0.0, output=11)

    assert world.run() == [(1.0, 3.9), (2.1, 4.0)]


@pytest.mark.parametrize("during", [0.5, 1.5])
def test_a_slower_gpu_delays_prefill_and_decode_from_the_moment_it_gets_slower(during: float):
    world = World()
    world.request(0.0, output=11)
    world.schedule(during, world.engine.share, 1.0)

    ((_, end),) = world.run()

    assert end == pytest.approx(during + 2 * (2.0 - during))


def test_the_speed_returns_when_the_gpu_is_no_longer_shared():
    world = World()
    world.request(0.0, output=11)
    world.schedule(1.0, world.engine.share, 1.0)
    world.schedule(1.4, world.engine.share, -1.0)

    assert world.run() == [(1.0, 2.2)]


def test_a_change_of_speed_while_a_prefill_waits_for_the_end_of_a_step_is_kept():
    world = World()
    world.request(0.0, output=11)
    world.request(1.22, output=1)
    world.schedule(1.24, world.engine.share, 1.0)

    (first, _), _ = world.run()

    assert first == pytest.approx(1.24 + 2 * (0.06 + PREFILL + STEP))


def test_busy_seconds_are_those_of_the_work():
    world = World()
    world.request(0.0, output=11, encode=0.5)
    world.run()
    busy = world.engine.busy

    assert (busy.encode, busy.prefill, busy.decode) == pytest.approx((0.5, 1.0, 1.0))

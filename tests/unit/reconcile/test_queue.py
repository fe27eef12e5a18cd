"""The queue, in virtual time."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from epd_operator.reconcile.queue import BackOff, WorkQueue


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def queue(clock: Clock) -> WorkQueue[str]:
    return WorkQueue(clock=clock, random=lambda: 1.0, gap=0.2)


async def next_key(waiting: WorkQueue[str]) -> str | None:
    """The next due key, or None if none is due now."""
    task = asyncio.ensure_future(waiting.get())
    for _ in range(3):
        await asyncio.sleep(0)
    if task.done():
        return task.result()
    task.cancel()
    return None


async def test_a_key_added_often_is_processed_once() -> None:
    waiting = queue(Clock())
    for _ in range(5):
        waiting.add("a")
    assert await next_key(waiting) == "a"
    waiting.done("a")
    assert await next_key(waiting) is None


async def test_a_key_is_never_given_to_two_workers() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.add("a")
    assert await next_key(waiting) == "a"
    waiting.add("a")
    assert await next_key(waiting) is None
    waiting.done("a")
    clock.now += 0.2
    assert await next_key(waiting) == "a"


async def test_a_burst_of_events_during_a_pass_waits_for_the_gap() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.add("a")
    await next_key(waiting)
    waiting.add("a")
    waiting.done("a")
    assert await next_key(waiting) is None
    clock.now += 0.2
    assert await next_key(waiting) == "a"


async def test_failures_in_a_row_wait_longer_and_a_success_forgets_them() -> None:
    clock = Clock()
    waiting = queue(clock)
    delays = []
    for _ in range(10):
        waiting.add("a")
        assert await next_key(waiting) == "a"
        delays.append(waiting.failed("a"))
        clock.now += delays[-1]
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert delays[-1] == 60.0
    assert await next_key(waiting) == "a"
    waiting.done("a")
    waiting.add("a", delay=0.5)
    clock.now += 1
    assert await next_key(waiting) == "a"
    assert waiting.failed("a") == 0.5


async def test_events_do_not_shorten_the_wait_after_a_failure() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.add("a")
    await next_key(waiting)
    waiting.add("a")
    waiting.failed("a", at_least=5.0)
    clock.now += 4.9
    assert await next_key(waiting) is None
    clock.now += 0.2
    assert await next_key(waiting) == "a"


async def test_events_after_a_failure_wait_too_but_not_long_since_a_person_may_have_mended_the_cause() -> None:
    clock = Clock()
    waiting = queue(clock)
    for _ in range(10):
        waiting.add("a")
        clock.now += 60
        assert await next_key(waiting) == "a"
        waiting.failed("a")
    clock.now += 1
    waiting.add("a")
    assert await next_key(waiting) is None
    clock.now += 4
    assert await next_key(waiting) == "a"
    waiting.done("a")
    waiting.add("a")
    assert await next_key(waiting) == "a"


async def test_events_do_not_override_the_wait_that_the_server_asked_for() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.add("a")
    await next_key(waiting)
    waiting.failed("a", at_least=30.0)
    waiting.add("a")
    clock.now += 29
    assert await next_key(waiting) is None
    clock.now += 1
    assert await next_key(waiting) == "a"


async def test_a_server_cannot_put_a_key_off_for_ever() -> None:
    clock = Clock()
    waiting = queue(clock)
    waiting.add("a")
    await next_key(waiting)
    assert waiting.failed("a", at_least=1e9) == 60.0


async def test_nothing_is_kept_of_keys_that_are_done() -> None:
    clock = Clock()
    waiting = queue(clock)
    for number in range(100):
        waiting.add(f"k{number}")
        await next_key(waiting)
        waiting.failed(f"k{number}")
        clock.now += 1
        await next_key(waiting)
        waiting.done(f"k{number}")
    assert [len(held) for held in vars(waiting).values() if isinstance(held, dict | set)] == [0, 0, 0, 0]


async def test_a_backlog_is_not_a_pass_that_hangs() -> None:
    clock = Clock()
    waiting = queue(clock)
    for number in range(10_000):
        waiting.add(f"k{number}")
    clock.now += 1000
    key = await next_key(waiting)
    assert key is not None
    assert waiting.overdue() == 1000
    assert waiting.longest_reconcile() == 0
    clock.now += 301
    assert waiting.longest_reconcile() == 301
    waiting.done(key)
    assert waiting.longest_reconcile() == 0


async def test_other_keys_are_served_while_one_waits() -> None:
    waiting = queue(Clock())
    waiting.add("slow", delay=100)
    waiting.add("b")
    assert await next_key(waiting) == "b"
    assert len(waiting) == 2


async def test_a_worker_that_waits_is_woken_by_a_new_key() -> None:
    waiting = queue(Clock())
    task = asyncio.ensure_future(waiting.get())
    await asyncio.sleep(0)
    waiting.add("a")
    assert await task == "a"


async def test_the_age_of_the_longest_waiting_key_is_known() -> None:
    clock = Clock()
    waiting = queue(clock)
    assert waiting.overdue() == 0.0
    waiting.add("a")
    clock.now += 7
    assert waiting.overdue() == 7.0


def test_jitter_spreads_waits_between_half_and_all() -> None:
    back_off = BackOff(initial=1.0, maximum=8.0)
    assert back_off.delay(1, jitter=0.0) == 0.5
    assert back_off.delay(1, jitter=1.0) == 1.0
    assert back_off.delay(50, jitter=1.0) == 8.0


class SimpleQueue:
    """The same rules without a heap: the due time of each key, and the keys that are being reconciled."""

    def __init__(self) -> None:
        self.due: dict[str, float] = {}
        self.processing: set[str] = set()

    def add(self, key: str, at: float) -> None:
        self.due[key] = min(at, self.due.get(key, at))

    def finish(self, key: str, *, now: float, requeue_after: float | None) -> None:
        self.processing.discard(key)
        if key in self.due:
            self.due[key] = max(self.due[key], now + 0.2)
        if requeue_after is not None:
            self.add(key, now + requeue_after)

    def may_be_next(self, now: float) -> set[str]:
        waiting = {key: at for key, at in self.due.items() if key not in self.processing and at <= now}
        return {key for key, at in waiting.items() if at == min(waiting.values())}


STEPS = st.lists(
    st.tuples(st.just("add"), st.sampled_from("abcd"), st.integers(0, 5))
    | st.tuples(st.just("take"), st.just(""), st.just(0))
    | st.tuples(st.just("done"), st.sampled_from("abcd"), st.integers(0, 5))
    | st.tuples(st.just("wait"), st.just(""), st.integers(0, 3)),
    max_size=40,
)


@given(STEPS)
def test_the_next_key_is_always_one_that_has_been_due_longest(steps: list[tuple[str, str, int]]) -> None:
    asyncio.run(_compare(steps))


async def _compare(steps: list[tuple[str, str, int]]) -> None:
    clock, model = Clock(), SimpleQueue()
    waiting = queue(clock)
    for what, key, number in steps:
        if what == "add":
            waiting.add(key, delay=number)
            model.add(key, clock.now + number)
        elif what == "wait":
            clock.now += number
        elif what == "done" and key in model.processing:
            again = number or None
            waiting.done(key, requeue_after=again)
            model.finish(key, now=clock.now, requeue_after=again)
        elif what == "take":
            expected, taken = model.may_be_next(clock.now), await next_key(waiting)
            assert (taken in expected) if expected else taken is None
            if taken is not None:
                del model.due[taken]
                model.processing.add(taken)
        assert len(waiting) == len(model.due.keys() | model.processing)

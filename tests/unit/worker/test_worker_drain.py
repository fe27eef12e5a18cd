"""The drain's decisions, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_worker.drain import Drainer, DrainOutcome, DrainProgress, Reading
from epd_worker.spec import Role

ZERO, ONE, UNREADABLE = Reading(0), Reading(1), Reading(None, reason="no page")
ENDED = Reading(None, ended=True)


class VirtualTime:
    """A clock that moves only when all tasks sleep."""

    def __init__(self):
        self.now = 100.0
        self._sleepers = []

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, woken))
        await woken

    async def run(self, awaitable):
        task = asyncio.ensure_future(awaitable)
        while not task.done():
            for _ in range(20):
                await asyncio.sleep(0)
            if not task.done() and self._sleepers:
                self._sleepers.sort(key=lambda sleeper: sleeper[0])
                self.now, woken = self._sleepers.pop(0)
                woken.set_result(None)
        return task.result()


@dataclass
class Process:
    """A process whose requests in flight follow a plan of (until second, reading)."""

    name: str
    role: Role
    time: VirtualTime
    plan: list[tuple[float, Reading]]
    was_ready: bool = True
    read_takes: float = 0.0
    unready_at: float | None = None
    timeouts: list[float] = field(default_factory=list)

    def begin_drain(self):
        self.unready_at = self.time.now
        return self.was_ready

    async def read(self, *, timeout):  # noqa: ASYNC109 - the protocol's parameter
        self.timeouts.append(timeout)
        if self.read_takes:
            await self.time.sleep(min(self.read_takes, timeout))
        return next((reading for until, reading in self.plan if self.time.now - 100.0 < until), ZERO)


def _drain(processes, time, *, timeout=60.0, settle=6.0):
    drainer = Drainer(timeout=timeout, settle=settle, clock=time.clock, sleep=time.sleep)
    return asyncio.run(time.run(drainer.drain(processes)))


def _one(plan, *, timeout=60.0, settle=6.0, **options):
    time = VirtualTime()
    process = Process("main", Role.PD, time, plan, **options)
    (result,) = _drain([process], time, timeout=timeout, settle=settle)
    return result, process


def test_an_idle_process_is_drained_after_the_settle_time_and_two_readings():
    result, _ = _one([])
    assert (result.outcome, result.seconds) == (DrainOutcome.DRAINED, 6.5)


def test_zero_before_the_settle_time_does_not_count():
    # A request arrives at the last moment, before the kubelet and Dynamo have detected that the process is unready.
    result, _ = _one([(5.9, ZERO), (8.2, ONE)])
    assert (result.outcome, result.seconds) == (DrainOutcome.DRAINED, 9.0)


def test_zero_must_be_seen_twice_in_a_row():
    result, _ = _one([(6.4, ZERO), (6.9, ONE), (7.4, ZERO), (7.9, UNREADABLE)])
    assert (result.outcome, result.seconds) == (DrainOutcome.DRAINED, 8.5)


def test_a_long_request_is_waited_for():
    result, _ = _one([(41, ONE)])
    assert (result.outcome, result.seconds) == (DrainOutcome.DRAINED, 41.5)


def test_the_time_limit_ends_the_drain_and_the_remaining_requests_are_reported():
    result, _ = _one([(1000, Reading(3))])
    assert (result.outcome, result.seconds) == (DrainOutcome.TIME_LIMIT, 60.0)
    assert result.describe() == "main: time limit reached after 60.0 s (3 requests still in flight)"


def test_unreadable_metrics_are_waited_for_until_the_time_limit():
    result, _ = _one([(1000, UNREADABLE)])
    assert result.describe() == "main: time limit reached after 60.0 s (no page)"


def test_a_reading_never_takes_longer_than_the_remaining_time():
    result, process = _one([(1000, UNREADABLE)], timeout=9, read_takes=3600)
    assert result.outcome is DrainOutcome.TIME_LIMIT
    assert result.seconds == 9
    assert max(process.timeouts) == 3.0
    assert process.timeouts[-1] < 3.0


def test_a_process_that_has_ended_needs_no_wait():
    result, _ = _one([(2.2, ONE), (1000, ENDED)])
    assert (result.outcome, result.seconds) == (DrainOutcome.ENDED, 2.5)


def test_a_process_that_was_never_ready_is_not_waited_for():
    result, process = _one([(1000, ONE)], was_ready=False)
    assert (result.outcome, result.seconds) == (DrainOutcome.NEVER_READY, 0.0)
    assert process.unready_at == 100.0


def test_no_time_at_all_still_makes_the_process_unready():
    result, process = _one([], timeout=0)
    assert (result.outcome, process.unready_at) == (DrainOutcome.TIME_LIMIT, 100.0)


def test_an_embedding_that_is_still_being_read_is_waited_for():
    result, _ = _one([(9, Reading(0, unread=16384)), (12, Reading(0, unread=8192))])
    assert (result.outcome, result.seconds) == (DrainOutcome.DRAINED, 12.5)


def test_unread_embeddings_that_do_not_change_for_half_a_minute_are_not_waited_for():
    # The PD process that should read them has died; Dynamo never releases them.
    result, _ = _one([(10, Reading(0, unread=16384)), (1000, Reading(0, unread=8192))])
    assert (result.outcome, result.seconds) == (DrainOutcome.DRAINED, 40.5)
    assert result.describe() == "main: drained after 40.5 s (8192 bytes of embeddings that nobody has read)"


def test_a_new_embedding_is_waited_for_although_an_older_one_is_never_read():
    leaked, both = Reading(0, unread=8192), Reading(0, unread=24576)
    result, _ = _one([(35, leaked), (50, both), (1000, leaked)], timeout=200, settle=36)
    assert (result.outcome, result.seconds) == (DrainOutcome.DRAINED, 80.5)


def test_unknown_unread_embeddings_are_waited_for_half_a_minute():
    result, _ = _one([(1000, Reading(0, unread=None))])
    assert (result.outcome, result.seconds) == (DrainOutcome.DRAINED, 30.5)


def _group(plans):
    time = VirtualTime()
    return time, [Process(name, role, time, plan) for name, role, plan in plans]


def test_encoders_stay_ready_until_the_pd_is_drained_then_drain_together():
    time, processes = _group(
        [
            ("encoder-0", Role.ENCODER, [(30, ONE)]),
            ("encoder-1", Role.ENCODER, []),
            ("pd", Role.PD, [(20, ONE)]),
        ]
    )
    results = _drain(processes, time)
    assert [result.name for result in results] == ["pd", "encoder-0", "encoder-1"]
    assert [process.unready_at for process in processes] == [120.5, 120.5, 100.0]
    assert [result.seconds for result in results] == [20.5, 10.0, 6.5]
    assert {result.outcome for result in results} == {DrainOutcome.DRAINED}


def test_all_stages_share_one_time_limit():
    time, processes = _group([("encoder-0", Role.ENCODER, []), ("pd", Role.PD, [(1000, ONE)])])
    results = _drain(processes, time)
    assert [(result.name, result.outcome) for result in results] == [
        ("pd", DrainOutcome.TIME_LIMIT),
        ("encoder-0", DrainOutcome.TIME_LIMIT),
    ]
    assert time.now == 160.0
    assert processes[0].unready_at == 160.0


readings = st.sampled_from([ZERO, ONE, UNREADABLE])


@given(st.lists(readings, max_size=30), st.floats(min_value=0, max_value=10))
def test_drained_means_two_zeros_in_a_row_after_settling(sequence, settle):
    progress, zeros = DrainProgress(settle=settle), 0
    for step, reading in enumerate(sequence):
        progress = progress.after(reading, unready_for=step * 0.5)
        zeros = zeros + 1 if reading is ZERO and step * 0.5 >= settle else 0
        assert (progress.outcome is DrainOutcome.DRAINED) == (zeros >= 2)
        if progress.outcome is not None:
            break


@pytest.mark.parametrize("role", list(Role))
def test_every_role_has_a_stage(role):
    time, processes = _group([("main", role, [])])
    assert [result.outcome for result in _drain(processes, time)] == [DrainOutcome.DRAINED]

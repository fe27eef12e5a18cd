"""Replicas with slow, failing and partitioned API servers, in virtual time: who works when, and who never."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from epd_operator.cluster.errors import ClusterError, RefusedError, UnavailableError
from epd_operator.cluster.lease import Lease, LeaseRecord
from epd_operator.election.elector import Elector, LeadershipLostError
from epd_operator.election.leader import SHUTDOWN_SECONDS, LeaderTasks, run_while_leading, start_fence
from epd_operator.election.rules import Timing
from support.leases import MemoryLease
from support.virtual import run_virtually

TIMING = Timing()
LATEST = TIMING.duration + TIMING.retry * 1.2
"""So long after the last renewal a standby has taken over, apart from the time that requests take."""


class Connection:
    """The way of one replica to the Lease: takes time, and may fail."""

    def __init__(self, server: MemoryLease, *, delay: Callable[[], float] = lambda: 0.01) -> None:
        self.server = server
        self.delay = delay
        self.error: ClusterError | None = None
        self.loses_answers = False
        self.requests = 0

    async def read(self) -> Lease | None:
        await self._travel()
        return self.server.lease

    async def write(self, record: LeaseRecord, *, previous: Lease | None) -> Lease:
        await self._travel()
        written = self.server.write(record, previous=previous)
        await asyncio.sleep(self.delay())
        if self.loses_answers:
            raise UnavailableError("no answer", request="PUT lease")
        return written

    async def _travel(self) -> None:
        self.requests += 1
        await asyncio.sleep(self.delay())
        if self.error is not None:
            raise self.error


class Queue:
    """A queue of which a pass is going on all the time, as long as it takes."""

    def __init__(self) -> None:
        self.busy = 0.0

    def close(self) -> None:
        pass

    def longest_pass(self) -> float:
        return self.busy


@dataclass
class Journal:
    """Who worked from when to when."""

    spans: list[tuple[str, float, float]] = field(default_factory=list)

    def overlaps(self) -> list[tuple[str, float, float]]:
        """Spans that began before all earlier ones had ended."""
        found, end = [], 0.0
        for span in sorted(self.spans, key=lambda span: span[1]):
            found += [span] if span[1] < end else []
            end = max(end, span[2])
        return found


class Replica:
    """One process: the real election and the real duty; its work only notes when it goes on."""

    births = 0

    def __init__(self, server: MemoryLease, *, journal: Journal, dice: random.Random | None = None) -> None:
        Replica.births += 1
        self.name = f"replica-{Replica.births}"
        self.connection = Connection(server)
        self.journal = journal
        self.stop = asyncio.Event()
        self.queue = Queue()
        self.ends_itself = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.elector = Elector(
            self.connection,
            identity=self.name,
            clock=self.loop.time,
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.loop.time()),
            random=(dice or random.Random(1)).random,
        )
        self.tasks = LeaderTasks(queue=self.queue, jobs=[self._work], watch=self._watch)
        self.process = asyncio.create_task(run_while_leading(self.elector, tasks=self.tasks, stop=self.stop))
        # How it ended is looked at, or a later test would hear asyncio complain of it.
        self.process.add_done_callback(lambda process: process.cancelled() or process.exception())

    async def _work(self) -> None:
        began = self.loop.time()
        try:
            await self.ends_itself.wait()
            raise RuntimeError("broken")
        finally:
            self.journal.spans.append((self.name, began, self.loop.time()))

    async def _watch(self) -> None:
        await asyncio.sleep(float("inf"))

    @property
    def works(self) -> bool:
        return self.tasks.active and self.elector.is_leader()

    async def until_it_works(self) -> float:
        while not self.works:  # noqa: ASYNC110 - nothing announces it, and time costs nothing here
            await asyncio.sleep(0.05)
        return self.loop.time()

    async def kill(self) -> None:
        """End it without any farewell."""
        self.connection.error = UnavailableError("dead", request="PUT lease")
        self.process.cancel()
        with contextlib.suppress(BaseException):
            await self.process


def virtually(story: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test in virtual time."""

    async def main() -> None:
        await story()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def test() -> None:
        run_virtually(main())

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


async def pair() -> tuple[MemoryLease, Journal, Replica, Replica]:
    """A leader and a standby."""
    server, journal = MemoryLease(), Journal()
    leader = Replica(server, journal=journal)
    await leader.until_it_works()
    standby = Replica(server, journal=journal)
    await asyncio.sleep(60)
    assert leader.works
    assert not standby.works
    return server, journal, leader, standby


@virtually
async def test_one_leads_and_the_other_only_reads_the_lease() -> None:
    server, _, leader, standby = await pair()
    before, version = standby.connection.requests, server.lease
    await asyncio.sleep(600)
    assert leader.works
    assert server.lease != version
    assert 200 < standby.connection.requests - before < 310
    assert server.lease is not None
    assert server.lease.record.transitions == 0


@virtually
async def test_the_standby_takes_over_when_the_leader_is_killed() -> None:
    server, journal, leader, standby = await pair()
    await leader.kill()
    killed = asyncio.get_running_loop().time()
    assert await standby.until_it_works() - killed <= LATEST + 0.2
    assert journal.overlaps() == []
    assert server.lease is not None
    assert server.lease.record.transitions == 1


@virtually
async def test_a_leader_that_is_told_to_stop_hands_over_at_once() -> None:
    _, journal, leader, standby = await pair()
    told = asyncio.get_running_loop().time()
    leader.stop.set()
    await leader.process
    assert await standby.until_it_works() - told <= TIMING.retry * 1.2 + 0.2
    assert journal.overlaps() == []


@virtually
async def test_a_standby_that_is_told_to_stop_ends_at_once_and_leaves_the_lease_alone() -> None:
    server, _, leader, standby = await pair()
    standby.stop.set()
    await standby.process
    assert server.lease is not None
    assert server.lease.record.holder == leader.name
    assert leader.works


@virtually
async def test_passes_may_end_before_the_lease_is_given_up_and_it_is_renewed_meanwhile() -> None:
    server, journal, leader, standby = await pair()
    leader.queue.busy = 1.0
    leader.stop.set()
    await asyncio.sleep(3.0)
    assert leader.works
    leader.queue.busy = 0.0
    await leader.process
    await standby.until_it_works()
    assert journal.overlaps() == []
    assert server.lease is not None
    assert server.lease.record.holder == standby.name


@virtually
async def test_where_a_pass_had_to_be_cut_off_its_last_write_has_the_whole_lease_to_be_carried_out() -> None:
    _, journal, leader, standby = await pair()
    leader.queue.busy = 1.0
    told = asyncio.get_running_loop().time()
    leader.stop.set()
    await leader.process
    assert asyncio.get_running_loop().time() - told == pytest.approx(SHUTDOWN_SECONDS, abs=0.5)
    ended = journal.spans[-1][2]
    assert await standby.until_it_works() - ended >= TIMING.duration - TIMING.retry * 1.2 - 0.2
    assert journal.overlaps() == []


@virtually
async def test_a_leader_without_a_way_to_the_api_server_stops_before_the_standby_begins() -> None:
    _, journal, leader, standby = await pair()
    cut = asyncio.get_running_loop().time()
    leader.connection.error = UnavailableError("no route", request="PUT lease")
    with pytest.raises(LeadershipLostError, match="no route"):
        await leader.process
    stopped = asyncio.get_running_loop().time()
    assert stopped - cut <= TIMING.deadline
    began = await standby.until_it_works()
    assert began - stopped >= TIMING.duration - TIMING.deadline - 0.1
    assert journal.overlaps() == []


@virtually
async def test_answers_that_never_come_end_the_leader_in_time_too() -> None:
    _, journal, leader, standby = await pair()
    leader.connection.delay = lambda: 3600.0
    with pytest.raises(LeadershipLostError, match="no answer"):
        await leader.process
    await standby.until_it_works()
    assert journal.overlaps() == []


@virtually
async def test_failures_shorter_than_the_deadline_change_nothing() -> None:
    server, _, leader, _ = await pair()
    leader.connection.error = UnavailableError("busy", request="PUT lease")
    await asyncio.sleep(TIMING.deadline - 2 * TIMING.retry * 1.2)
    leader.connection.error = None
    await asyncio.sleep(TIMING.deadline)
    leader.connection.loses_answers = True
    await asyncio.sleep(TIMING.deadline - 2 * TIMING.retry * 1.2)
    leader.connection.loses_answers = False
    await asyncio.sleep(60)
    assert leader.works
    assert server.lease is not None
    assert server.lease.record.transitions == 0


@virtually
async def test_a_candidate_that_may_not_read_the_lease_waits_until_it_may() -> None:
    server, journal = MemoryLease(), Journal()
    one = Replica(server, journal=journal)
    one.connection.error = RefusedError("forbidden", request="GET lease", status=403)
    await asyncio.sleep(600)
    assert not one.works
    one.connection.error = None
    await one.until_it_works()


@virtually
async def test_a_stranger_who_takes_the_lease_ends_the_leader_and_later_a_standby_goes_on() -> None:
    server, journal, leader, standby = await pair()
    server.edit(holder="stranger\n" * 100)
    with pytest.raises(LeadershipLostError, match="stranger"):
        await leader.process
    await standby.until_it_works()
    assert journal.overlaps() == []


@virtually
async def test_a_deleted_lease_is_made_again_by_its_holder() -> None:
    server, _, leader, standby = await pair()
    server.lease = None
    await asyncio.sleep(30)
    assert leader.works
    assert not standby.works
    assert server.lease is not None


@virtually
async def test_a_leader_whose_work_breaks_gives_up_the_lease() -> None:
    _, journal, leader, standby = await pair()
    broken = asyncio.get_running_loop().time()
    leader.ends_itself.set()
    with pytest.raises(RuntimeError, match="broken"):
        await leader.process
    assert await standby.until_it_works() - broken <= TIMING.retry * 1.2 + 0.2
    assert journal.overlaps() == []


async def disturb(one: Replica, server: MemoryLease, dice: random.Random) -> None:
    """Do something to a replica or its Lease."""
    match dice.randrange(10):
        case 0:
            await one.kill()
        case 1:
            one.stop.set()
        case 2:
            one.connection.error = UnavailableError("cut off", request="PUT lease")
        case 3:
            one.connection.delay = lambda: dice.choice([0.01, 0.5, 4.0, 20.0])
        case 4:
            one.connection.loses_answers = not one.connection.loses_answers
        case 5:
            server.lease = None
        case 6:
            server.edit(holder=dice.choice(["", "stranger", one.name]), duration_seconds=dice.choice([0, 15]))
        case 7:
            one.queue.busy = 1.0 - one.queue.busy
        case _:
            one.connection.error = None
            one.connection.delay = lambda: 0.01


@pytest.mark.parametrize("seed", range(50))
def test_in_any_disorder_there_is_never_more_than_one_at_work(seed: int) -> None:
    dice = random.Random(seed)

    async def chaos() -> None:
        server, journal = MemoryLease(), Journal()
        replicas = [Replica(server, journal=journal, dice=dice) for _ in range(3)]
        for _ in range(150):
            await asyncio.sleep(dice.choice([0.3, 1.0, 2.0, 5.0, 16.0]))
            await disturb(dice.choice(replicas), server, dice)
            assert sum(replica.works for replica in replicas) <= 1
            for ended in [replica for replica in replicas if replica.process.done()]:
                replicas.remove(ended)
                replicas.append(Replica(server, journal=journal, dice=dice))
        for replica in replicas:
            await replica.kill()
        assert len(journal.spans) > 5
        assert journal.overlaps() == []

    run_virtually(chaos())


class Frozen:
    """A leadership that is over, and a duty that does not notice."""

    active = True
    timing = TIMING

    def __init__(self) -> None:
        self.over = -5.0

    def overdue(self) -> float:
        self.over += 1.0
        return self.over


def test_the_fence_ends_a_process_whose_work_goes_on_after_its_time() -> None:
    ended: list[int] = []
    frozen = Frozen()
    thread = start_fence(frozen, tasks=frozen, exit_process=ended.append)  # type: ignore[arg-type]
    thread.join(timeout=60)
    assert ended == [70]
    assert frozen.over > TIMING.grace

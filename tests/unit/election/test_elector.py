"""Leader election of replicas with slow, failing and partitioned API servers, in virtual time."""

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
from epd_operator.election.leader import SHUTDOWN_SECONDS, LeaderTasks, run_while_leading
from epd_operator.election.rules import Timing
from support.leases import MemoryLease
from support.virtual import VirtualLoop, run_virtually

TIMING = Timing()
LATEST = TIMING.duration + TIMING.retry * 1.2
"""Longest time from the last renewal until a standby has taken over, without the time of requests."""


class Connection:
    """The connection of one replica to the Lease: requests take time and can fail."""

    def __init__(self, server: MemoryLease, *, delay: Callable[[], float] = lambda: 0.01) -> None:
        self.server = server
        self.delay = delay
        self.error: ClusterError | None = None
        self.loses_responses = False
        self.requests = 0

    async def read(self) -> Lease | None:
        await self._send()
        return self.server.lease

    async def write(self, record: LeaseRecord, *, previous: Lease | None) -> Lease:
        await self._send()
        written = self.server.write(record, previous=previous)
        await asyncio.sleep(self.delay())
        if self.loses_responses:
            raise UnavailableError("no answer", request="PUT lease")
        return written

    async def _send(self) -> None:
        self.requests += 1
        await asyncio.sleep(self.delay())
        if self.error is not None:
            raise self.error


class Queue:
    """A queue whose longest reconcile has been running for a given time; 0 means none is running."""

    def __init__(self) -> None:
        self.busy = 0.0

    def close(self) -> None:
        pass

    def longest_reconcile(self) -> float:
        return self.busy


@dataclass
class Journal:
    """When each replica worked: name, start and end."""

    spans: list[tuple[str, float, float]] = field(default_factory=list)

    def overlaps(self) -> list[tuple[str, float, float]]:
        """Spans that started before all earlier ones had ended."""
        found, end = [], 0.0
        for span in sorted(self.spans, key=lambda span: span[1]):
            found += [span] if span[1] < end else []
            end = max(end, span[2])
        return found


class Replica:
    """One process: the real elector and the real leader tasks, with work that only records when it runs."""

    created = 0

    def __init__(self, server: MemoryLease, *, journal: Journal, dice: random.Random | None = None) -> None:
        Replica.created += 1
        self.name = f"replica-{Replica.created}"
        self.connection = Connection(server)
        self.journal = journal
        self.stop = asyncio.Event()
        self.queue = Queue()
        self.work_fails = asyncio.Event()
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
        # Retrieve the exception. Otherwise asyncio would log it during a later test.
        self.process.add_done_callback(lambda process: process.cancelled() or process.exception())

    async def _work(self) -> None:
        began = self.loop.time()
        try:
            await self.work_fails.wait()
            raise RuntimeError("broken")
        finally:
            self.journal.spans.append((self.name, began, self.loop.time()))

    async def _watch(self) -> None:
        await asyncio.sleep(float("inf"))

    @property
    def works(self) -> bool:
        return self.tasks.active and self.elector.is_leader()

    async def wait_until_working(self) -> float:
        while not self.works:  # noqa: ASYNC110 - there is no event to wait for, and time is virtual
            await asyncio.sleep(0.05)
        return self.loop.time()

    async def kill(self) -> None:
        """End the process without releasing the Lease."""
        self.connection.error = UnavailableError("dead", request="PUT lease")
        self.process.cancel()
        with contextlib.suppress(BaseException):
            await self.process


def in_virtual_time(scenario: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Make a coroutine function a test in virtual time."""

    async def main() -> None:
        await scenario()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def test() -> None:
        run_virtually(main())

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


async def pair() -> tuple[MemoryLease, Journal, Replica, Replica]:
    """A leader and a standby."""
    server, journal = MemoryLease(), Journal()
    leader = Replica(server, journal=journal)
    await leader.wait_until_working()
    standby = Replica(server, journal=journal)
    await asyncio.sleep(60)
    assert leader.works
    assert not standby.works
    return server, journal, leader, standby


@in_virtual_time
async def test_one_replica_leads_and_the_other_only_reads_the_lease() -> None:
    server, _, leader, standby = await pair()
    before, version = standby.connection.requests, server.lease
    await asyncio.sleep(600)
    assert leader.works
    assert server.lease != version
    assert 200 < standby.connection.requests - before < 310
    assert server.lease is not None
    assert server.lease.record.transitions == 0


@in_virtual_time
async def test_the_standby_takes_over_when_the_leader_is_killed() -> None:
    server, journal, leader, standby = await pair()
    await leader.kill()
    killed = asyncio.get_running_loop().time()
    assert await standby.wait_until_working() - killed <= LATEST + 0.2
    assert journal.overlaps() == []
    assert server.lease is not None
    assert server.lease.record.transitions == 1


@in_virtual_time
async def test_a_leader_that_is_stopped_hands_over_immediately() -> None:
    _, journal, leader, standby = await pair()
    stopped = asyncio.get_running_loop().time()
    leader.stop.set()
    await leader.process
    assert await standby.wait_until_working() - stopped <= TIMING.retry * 1.2 + 0.2
    assert journal.overlaps() == []


@in_virtual_time
async def test_a_standby_that_is_stopped_ends_immediately_and_does_not_change_the_lease() -> None:
    server, _, leader, standby = await pair()
    standby.stop.set()
    await standby.process
    assert server.lease is not None
    assert server.lease.record.holder == leader.name
    assert leader.works


@in_virtual_time
async def test_the_lease_is_renewed_until_running_reconciles_have_ended_and_then_released() -> None:
    server, journal, leader, standby = await pair()
    leader.queue.busy = 1.0
    leader.stop.set()
    await asyncio.sleep(3.0)
    assert leader.works
    leader.queue.busy = 0.0
    await leader.process
    await standby.wait_until_working()
    assert journal.overlaps() == []
    assert server.lease is not None
    assert server.lease.record.holder == standby.name


@in_virtual_time
async def test_after_a_cancelled_reconcile_the_standby_waits_for_the_whole_lease_duration() -> None:
    _, journal, leader, standby = await pair()
    leader.queue.busy = 1.0
    stopped = asyncio.get_running_loop().time()
    leader.stop.set()
    await leader.process
    assert asyncio.get_running_loop().time() - stopped == pytest.approx(SHUTDOWN_SECONDS, abs=0.5)
    ended = journal.spans[-1][2]
    assert await standby.wait_until_working() - ended >= TIMING.duration - TIMING.retry * 1.2 - 0.2
    assert journal.overlaps() == []


@in_virtual_time
async def test_a_leader_without_a_connection_to_the_api_server_stops_before_the_standby_starts() -> None:
    _, journal, leader, standby = await pair()
    cut = asyncio.get_running_loop().time()
    leader.connection.error = UnavailableError("no route", request="PUT lease")
    with pytest.raises(LeadershipLostError, match="no route"):
        await leader.process
    stopped = asyncio.get_running_loop().time()
    assert stopped - cut <= TIMING.deadline
    began = await standby.wait_until_working()
    assert began - stopped >= TIMING.duration - TIMING.deadline - 0.1
    assert journal.overlaps() == []


@in_virtual_time
async def test_a_leader_whose_requests_get_no_response_stops_in_time() -> None:
    _, journal, leader, standby = await pair()
    leader.connection.delay = lambda: 3600.0
    with pytest.raises(LeadershipLostError, match="no answer"):
        await leader.process
    await standby.wait_until_working()
    assert journal.overlaps() == []


@in_virtual_time
async def test_a_leader_whose_process_was_paused_stops_and_reports_the_pause() -> None:
    _, _, leader, standby = await pair()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.freeze(TIMING.deadline + 1)
    message = "the Lease was not renewed for 10 s: the process was paused or its event loop was blocked"
    with pytest.raises(LeadershipLostError, match=f"^{message}$"):
        await leader.process
    await standby.wait_until_working()


@in_virtual_time
async def test_failures_shorter_than_the_deadline_change_nothing() -> None:
    server, _, leader, _ = await pair()
    leader.connection.error = UnavailableError("busy", request="PUT lease")
    await asyncio.sleep(TIMING.deadline - 2 * TIMING.retry * 1.2)
    leader.connection.error = None
    await asyncio.sleep(TIMING.deadline)
    leader.connection.loses_responses = True
    await asyncio.sleep(TIMING.deadline - 2 * TIMING.retry * 1.2)
    leader.connection.loses_responses = False
    await asyncio.sleep(60)
    assert leader.works
    assert server.lease is not None
    assert server.lease.record.transitions == 0


@in_virtual_time
async def test_a_candidate_that_is_not_allowed_to_read_the_lease_waits_until_it_is() -> None:
    server, journal = MemoryLease(), Journal()
    one = Replica(server, journal=journal)
    one.connection.error = RefusedError("forbidden", request="GET lease", status=403)
    await asyncio.sleep(600)
    assert not one.works
    one.connection.error = None
    await one.wait_until_working()


@in_virtual_time
async def test_a_leader_stops_when_another_client_takes_the_lease_and_a_standby_follows() -> None:
    server, journal, leader, standby = await pair()
    server.edit(holder="other-client\n" * 100)
    with pytest.raises(LeadershipLostError, match="other-client"):
        await leader.process
    await standby.wait_until_working()
    assert journal.overlaps() == []


@in_virtual_time
async def test_a_deleted_lease_is_recreated_by_its_holder() -> None:
    server, _, leader, standby = await pair()
    server.lease = None
    await asyncio.sleep(30)
    assert leader.works
    assert not standby.works
    assert server.lease is not None


@in_virtual_time
async def test_a_leader_whose_work_fails_releases_the_lease() -> None:
    _, journal, leader, standby = await pair()
    failed = asyncio.get_running_loop().time()
    leader.work_fails.set()
    with pytest.raises(RuntimeError, match="broken"):
        await leader.process
    assert await standby.wait_until_working() - failed <= TIMING.retry * 1.2 + 0.2
    assert journal.overlaps() == []


async def disturb(one: Replica, server: MemoryLease, dice: random.Random) -> None:
    """Apply a random fault to a replica or its Lease."""
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
            one.connection.loses_responses = not one.connection.loses_responses
        case 5:
            server.lease = None
        case 6:
            server.edit(holder=dice.choice(["", "other-client", one.name]), duration_seconds=dice.choice([0, 15]))
        case 7:
            one.queue.busy = 1.0 - one.queue.busy
        case _:
            one.connection.error = None
            one.connection.delay = lambda: 0.01


@pytest.mark.parametrize("seed", range(50))
def test_under_random_faults_at_most_one_replica_works(seed: int) -> None:
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

"""At most one replica works, for any order of events, any clocks and any edits of the Lease by other clients."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from epd_operator.cluster.errors import ClusterError
from epd_operator.cluster.lease import MAX_INT32, Lease, LeaseRecord
from epd_operator.election.rules import RELEASED_SECONDS, Candidate, Timing
from support.leases import MemoryLease

TIMING = Timing()
MARGIN = TIMING.duration - TIMING.deadline
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def candidate(name: str = "a") -> Candidate:
    return Candidate(identity=name, timing=TIMING)


def attempt(one: Candidate, server: MemoryLease, *, at: float, now: datetime = NOW) -> bool:
    """Read and write the Lease without delay; return whether the candidate leads."""
    one.observe(server.lease, at=at)
    record = one.next_record(at=at, now=now)
    if record is not None:
        one.confirm_write(server.write(record, previous=one.lease), started=at, at=at)
    return one.leads


def test_a_missing_lease_is_created_and_taken_only_after_its_duration() -> None:
    server, one = MemoryLease(), candidate()
    assert not attempt(one, server, at=100.0)
    assert server.lease is not None
    assert server.lease.record.holder == ""
    assert not attempt(one, server, at=114.9)
    assert attempt(one, server, at=115.0)
    assert server.lease.record.transitions == 0


def test_a_lease_that_was_created_and_deleted_between_two_reads_is_not_taken() -> None:
    server, one, other = MemoryLease(), candidate("a"), candidate("b")
    one.observe(None, at=0.0)
    attempt(other, server, at=0.0)
    assert attempt(other, server, at=15.0)
    server.lease = None
    record = one.next_record(at=16.0, now=NOW)
    assert record is not None
    one.confirm_write(server.write(record, previous=None), started=16.0, at=16.0)
    assert not one.leads
    assert attempt(other, server, at=17.0)
    assert not attempt(one, server, at=31.0)


def test_a_lease_is_taken_when_it_has_not_changed_for_its_duration_and_the_transition_is_counted() -> None:
    server, one = MemoryLease(), candidate()
    server.put(LeaseRecord(holder="b", duration_seconds=15, acquired="1", renewed="1", transitions=4))
    assert not attempt(one, server, at=0.0)
    server.edit(renewed="2")
    assert not attempt(one, server, at=14.0)
    assert not attempt(one, server, at=28.9)
    assert attempt(one, server, at=29.0)
    assert server.lease is not None
    assert (server.lease.record.holder, server.lease.record.transitions) == ("a", 5)


def test_a_released_lease_is_taken_immediately() -> None:
    server, one, other = MemoryLease(), candidate("a"), candidate("b")
    server.put(LeaseRecord(holder="x", duration_seconds=15))
    attempt(one, server, at=0.0)
    assert attempt(one, server, at=15.0)
    one.observe(server.lease, at=16.0)
    released = one.release_record(now=NOW)
    assert released is not None
    server.write(released, previous=one.lease)
    assert attempt(other, server, at=16.1)


def test_a_holder_that_another_client_removed_is_assumed_to_be_working() -> None:
    server, one = MemoryLease(), candidate()
    for emptied in (LeaseRecord(), LeaseRecord(duration_seconds=15), LeaseRecord(duration_seconds=0, transitions=9)):
        server.put(emptied)
        assert not attempt(one, server, at=0.0)


def test_another_client_can_neither_shorten_the_wait_nor_block_all_candidates_permanently() -> None:
    for seconds, wait in ((1, 15.0), (0, 15.0), (40, 40.0), (MAX_INT32, 60.0)):
        server, one = MemoryLease(), candidate()
        server.put(LeaseRecord(holder="b", duration_seconds=seconds, transitions=MAX_INT32))
        assert not attempt(one, server, at=0.0)
        assert not attempt(one, server, at=wait - 0.1)
        assert attempt(one, server, at=wait)
        assert server.lease is not None
        assert server.lease.record.transitions == MAX_INT32


def test_a_candidate_does_not_lead_by_a_lease_in_its_name_that_it_did_not_write() -> None:
    server, one = MemoryLease(), candidate()
    server.put(LeaseRecord(holder="a", duration_seconds=15))
    assert not attempt(one, server, at=0.0)
    assert one.release_record(now=NOW) is None


def test_a_leader_stops_leading_when_its_lease_names_another_holder() -> None:
    server, one = MemoryLease(), candidate()
    attempt(one, server, at=0.0)
    assert attempt(one, server, at=15.0)
    server.edit(holder="other-client")
    assert not attempt(one, server, at=16.0)


def test_a_leader_restores_a_lease_that_was_deleted_or_edited_but_still_names_it() -> None:
    server, one = MemoryLease(), candidate()
    attempt(one, server, at=0.0)
    attempt(one, server, at=15.0)
    server.edit(duration_seconds=1, transitions=77, acquired="")
    assert attempt(one, server, at=16.0)
    assert server.lease is not None
    assert (server.lease.record.duration_seconds, server.lease.record.transitions) == (15, 0)
    acquired = server.lease.record.acquired
    server.lease = None
    assert attempt(one, server, at=17.0)
    assert server.lease is not None
    assert server.lease.record.acquired == acquired


def test_every_renewal_changes_the_lease_even_if_the_clock_stops_or_goes_back() -> None:
    server, one = MemoryLease(), candidate()
    attempt(one, server, at=0.0)
    seen = set()
    for second in range(10):
        attempt(one, server, at=15.0 + second, now=NOW - timedelta(days=second // 2))
        assert server.lease is not None
        seen.add(server.lease.version)
    assert len(seen) == 10


def test_a_write_whose_response_was_lost_is_recognized_without_a_wait() -> None:
    server, one = MemoryLease(), candidate()
    server.put(LeaseRecord(holder="b", duration_seconds=15))
    one.observe(server.lease, at=0.0)
    record = one.next_record(at=15.0, now=NOW)
    assert record is not None
    server.write(record, previous=one.lease)
    assert not one.leads
    assert attempt(one, server, at=17.0)


@dataclass
class Write:
    """A write, and its response after the server has handled it; None if it was refused."""

    started: float
    over: Lease | None
    record: LeaseRecord
    done: bool = False
    response: Lease | None = None


@dataclass
class Replica:
    """One process of the operator."""

    one: Candidate
    wall: datetime
    pending: Write | None = None
    released: bool = False


class Election(RuleBasedStateMachine):
    """Three replicas that stop and restart, with slow, lost and late requests and edits by other clients."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.server = MemoryLease()
        self.created = 0
        self.replicas = [self._new() for _ in range(3)]
        self.dead: list[Replica] = []
        self.late_writes: list[Write] = []

    def _new(self) -> Replica:
        self.created += 1
        # The clocks differ by hours, and one of them has stopped.
        return Replica(one=candidate(f"r{self.created}"), wall=NOW + timedelta(hours=self.created % 5))

    who = st.integers(0, 2)

    @rule(seconds=st.sampled_from([0.1, 1.0, 2.4, 5.0, 9.9, 10.1, 14.9, 15.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for index, replica in enumerate(self.replicas):
            replica.wall += timedelta(seconds=seconds * (index - 1))

    @rule(up=st.sets(who, min_size=1), rounds=st.integers(1, 10))
    def some_replicas_run(self, up: set[int], rounds: int) -> None:
        """The others are stopped, or have no connection to the API server."""
        for _ in range(rounds):
            for who in sorted(up):
                self.read_lease(who)
                self.write_lease(who, slow=False)
            self.time_passes(2.0)

    @rule(who=who)
    def read_lease(self, who: int) -> None:
        replica = self.replicas[who]
        if replica.pending is None:
            replica.one.observe(self.server.lease, at=self.now)

    @rule(who=who, slow=st.booleans())
    def write_lease(self, who: int, slow: bool) -> None:
        replica = self.replicas[who]
        if replica.pending is not None:
            return
        record = replica.one.next_record(at=self.now, now=replica.wall)
        if record is not None:
            replica.pending = Write(started=self.now, over=replica.one.lease, record=record)
            if not slow:
                self.receive_response(who)

    @rule(who=who)
    def handle_write(self, who: int) -> None:
        pending = self.replicas[who].pending
        if pending is not None and not pending.done:
            self._handle_write(pending)

    @rule(who=who)
    def receive_response(self, who: int) -> None:
        """The response arrives. The server may have handled the request some time before."""
        self.handle_write(who)
        replica = self.replicas[who]
        pending, replica.pending = replica.pending, None
        if pending is not None and pending.response is not None:
            new = not replica.one.leads
            replica.one.confirm_write(pending.response, started=pending.started, at=self.now)
            if new and self.now < replica.one.leads_until:
                self._check_margin(replica)

    @rule(who=who, late=st.booleans())
    def lose_response(self, who: int, late: bool) -> None:
        pending, self.replicas[who].pending = self.replicas[who].pending, None
        if pending is not None and not pending.done and late:
            self.late_writes.append(pending)

    @precondition(lambda self: self.late_writes)
    @rule()
    def late_request_arrives(self) -> None:
        self._handle_write(self.late_writes.pop(0))

    @rule(who=who)
    def restart(self, who: int) -> None:
        self.lose_response(who, late=True)
        self.dead.append(self.replicas[who])
        self.replicas[who] = self._new()

    @rule(who=who)
    def release(self, who: int) -> None:
        replica = self.replicas[who]
        self.lose_response(who, late=True)
        replica.one.resign()
        replica.one.leads_until = min(replica.one.leads_until, self.now)
        replica.released = True
        replica.one.observe(self.server.lease, at=self.now)
        record = replica.one.release_record(now=replica.wall)
        if record is not None:
            self.server.write(record, previous=replica.one.lease)
        self.restart(who)

    @rule(
        fields=st.fixed_dictionaries(
            {},
            optional={
                "holder": st.sampled_from(["other-client", "r1", "r2", "r3"]),
                "duration_seconds": st.sampled_from([0, 1, 2, 3600, MAX_INT32]),
                "renewed": st.sampled_from(["", "never", "9999-01-01T00:00:00.000000Z"]),
                "transitions": st.sampled_from([0, MAX_INT32]),
            },
        )
    )
    def other_client_edits(self, fields: dict[str, object]) -> None:
        self._edit(fields)

    @rule(duration=st.sampled_from([0, 15, 3600]))
    def other_client_removes_the_holder(self, duration: int) -> None:
        self._edit({"holder": "", "duration_seconds": duration})

    def _edit(self, fields: dict[str, object]) -> None:
        before = self.server.lease
        if before is not None:
            after = replace(before.record, **fields)  # type: ignore[arg-type]
            # A deliberately forged release cannot be distinguished from a release by the holder.
            if (after.holder, after.duration_seconds) != ("", RELEASED_SECONDS):
                self.server.put(after)

    @rule()
    def other_client_deletes(self) -> None:
        self.server.lease = None

    def _handle_write(self, pending: Write) -> None:
        pending.done = True
        with contextlib.suppress(ClusterError):
            pending.response = self.server.write(pending.record, previous=pending.over)

    def _check_margin(self, leader: Replica) -> None:
        """The server has had time to handle the last writes of the other replicas."""
        for other in (*self.replicas, *self.dead):
            if other is not leader and not other.released:
                assert self.now >= other.one.leads_until + MARGIN, (leader.one.identity, other.one.identity)

    @invariant()
    def at_most_one_works(self) -> None:
        working = [r.one.identity for r in self.replicas if r.one.leads and self.now < r.one.leads_until]
        assert len(working) <= 1, working


TestElection = Election.TestCase
TestElection.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)

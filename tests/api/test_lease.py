"""The Lease on a real API server: concurrent writes conflict, and any content is tolerated."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from epd_operator.cluster.errors import ClusterError, ConflictError
from epd_operator.cluster.lease import MAX_INT32, ClusterLeaseStore, LeaseRecord
from epd_operator.election.rules import Candidate, Timing
from support.operated import World

PATH = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
STAMP = "2026-01-01T00:00:00.000000Z"
MINE = LeaseRecord(holder="me", duration_seconds=15, acquired=STAMP, renewed=STAMP, transitions=3)


def leases(world: World) -> ClusterLeaseStore:
    return ClusterLeaseStore(world.cluster, namespace=world.namespace, name="epd-operator")


def put(world: World, spec: object, **metadata: Any) -> None:
    """Write the Lease as another client."""
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    body |= {"metadata": {"name": "epd-operator", **metadata}} | ({} if spec is None else {"spec": spec})  # type: ignore[dict-item]
    answer = world.server.client.apply(f"{PATH.format(world.namespace)}/epd-operator", body)
    assert answer.ok, answer.message


async def test_a_lease_is_read_as_it_was_written(world: World) -> None:
    store = leases(world)
    assert await store.read() is None
    written = await store.write(MINE, previous=None)
    assert written.record == MINE
    read = await store.read()
    assert read is not None
    assert (read.record, read.version) == (MINE, written.version)


async def test_the_second_of_two_writes_over_the_same_version_is_refused(world: World) -> None:
    store = leases(world)
    first = await store.write(MINE, previous=None)
    with pytest.raises(ConflictError):
        await store.write(replace(MINE, holder="other"), previous=None)
    second = await store.write(replace(MINE, holder="b"), previous=first)
    with pytest.raises(ConflictError):
        await store.write(replace(MINE, holder="c"), previous=first)
    read = await store.read()
    assert read is not None
    assert (read.record.holder, read.version) == ("b", second.version)


async def test_a_lease_that_was_deleted_or_recreated_is_not_overwritten(world: World) -> None:
    store = leases(world)
    first = await store.write(MINE, previous=None)
    path = f"{PATH.format(world.namespace)}/epd-operator"
    assert world.server.client.request("DELETE", path).ok
    with pytest.raises(ClusterError):
        await store.write(replace(MINE, holder="b"), previous=first)
    assert await store.read() is None
    await store.write(replace(MINE, holder="c"), previous=None)
    with pytest.raises(ClusterError):
        await store.write(replace(MINE, holder="b"), previous=first)


HOSTILE = [
    None,
    {},
    {"holderIdentity": ""},
    {"holderIdentity": "x" * 1000, "leaseDurationSeconds": MAX_INT32, "leaseTransitions": MAX_INT32},
    {"renewTime": "9999-12-31T23:59:59.000000Z", "acquireTime": "0001-01-01T00:00:00.000000Z"},
    {"leaseDurationSeconds": 1, "holderIdentity": "stranger\n\u0000\u202e"},
    {"holderIdentity": "x", "strategy": "OldestEmulationVersion", "preferredHolder": "y"},
]


@pytest.mark.parametrize("spec", HOSTILE)
async def test_the_lease_is_acquired_after_any_content_of_another_client_and_keeps_its_labels(
    world: World, spec: object
) -> None:
    put(world, spec, labels={"team": "a"})
    store, one = leases(world), Candidate(identity="me", timing=Timing())
    one.observe(await store.read(), at=0.0)
    assert one.next_record(at=14.9, now=NOW) is None
    record = one.next_record(at=60.0, now=NOW)
    assert record is not None
    one.confirm_write(await store.write(record, previous=one.lease), started=60.0, at=60.1)
    assert one.leads
    renewal = one.next_record(at=62.0, now=NOW)
    assert renewal is not None
    one.confirm_write(await store.write(renewal, previous=one.lease), started=62.0, at=62.1)
    live = world.server.client.get(f"{PATH.format(world.namespace)}/epd-operator").body
    assert live["metadata"]["labels"] == {"team": "a"}
    assert live["spec"]["holderIdentity"] == "me"
    assert live["spec"]["leaseTransitions"] <= MAX_INT32


async def test_a_released_lease_can_be_acquired_at_once(world: World) -> None:
    store = leases(world)
    one, other = Candidate(identity="a", timing=Timing()), Candidate(identity="b", timing=Timing())
    put(world, {"holderIdentity": "", "leaseDurationSeconds": 1})
    for candidate in (one, other):
        candidate.observe(await store.read(), at=0.0)
        record = candidate.next_record(at=0.0, now=NOW)
        assert record is not None
        candidate.confirm_write(await store.write(record, previous=candidate.lease), started=0.0, at=0.1)
        assert candidate.leads
        candidate.observe(await store.read(), at=1.0)
        released = candidate.release_record(now=NOW)
        assert released is not None
        await store.write(released, previous=candidate.lease)

"""Replicas of the operator as real processes with a real API server: killed, stopped, suspended, disconnected."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.apiserver import ApiServer
from support.replica import Replica
from support.specs import raw_spec
from support.wire import Wire

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/epd-operator"
OBJECTS = "/apis/epd.dev/v1alpha1/namespaces/{}/epddeployments"
WORKER = "/apis/apps/v1/namespaces/{}/deployments/{}-worker"


@dataclass
class Pair:
    """A leader and a standby, which watch one namespace."""

    server: ApiServer
    namespace: str
    leader: Replica
    standby: Replica

    def create(self, name: str) -> None:
        body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": name}}
        answer = self.server.client.create(OBJECTS.format(self.namespace), body | {"spec": raw_spec("Aggregated")})
        assert answer.ok, answer.message

    def has_children(self, name: str) -> bool:
        return self.server.client.get(WORKER.format(self.namespace, name)).ok

    def lease(self) -> dict[str, Any]:
        found: dict[str, Any] = self.server.client.get(LEASES.format(self.namespace)).body["spec"]
        return found

    def standby_takes_over(self) -> None:
        """The standby becomes the leader and reconciles objects."""
        self.standby.wait_for("the standby leads", lambda: self.standby.leads)
        self.create("after")
        self.standby.wait_for("children of a new object", lambda: self.has_children("after"))


Start = Callable[..., Replica]


@pytest.fixture
def namespace(api_server: ApiServer) -> str:
    """A namespace with a Lease that has no holder, so that the first replica does not wait."""
    name = f"ha-{uuid.uuid4().hex[:8]}"
    assert api_server.client.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "epd-operator"}}
    lease |= {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
    assert api_server.client.apply(LEASES.format(name), lease).ok
    return name


@pytest.fixture
def start(namespace: str, tmp_path: Path) -> Iterator[Start]:
    """Starts replicas with leader election; they are stopped at the end of the test."""
    with ExitStack() as running:

        def begin(kubeconfig: Path, name: str) -> Replica:
            flags = ["--leader-election", f"--lease-namespace={namespace}", f"--namespace={namespace}"]
            return running.enter_context(Replica(*flags, kubeconfig=kubeconfig, log=tmp_path / f"{name}.log"))

        yield begin


@pytest.fixture
def wire(api_server: ApiServer) -> Iterator[Wire]:
    """The leader's connection to the API server."""
    with Wire(api_server) as opened:
        yield opened


@pytest.fixture
def pair(api_server: ApiServer, namespace: str, start: Start, wire: Wire, tmp_path: Path) -> Pair:
    """A leader that has created the children of one object, and a standby; both are ready."""
    leader = start(wire.kubeconfig(api_server, to=tmp_path / "kubeconfig"), "leader")
    leader.wait_for("the first replica leads", lambda: leader.leads)
    standby = start(api_server.kubeconfig, "standby")
    standby.wait_for("the standby is ready", lambda: standby.is_ready)
    found = Pair(server=api_server, namespace=namespace, leader=leader, standby=standby)
    found.create("before")
    leader.wait_for("children", lambda: found.has_children("before"))
    assert leader.is_ready
    assert leader.is_alive
    assert standby.is_alive
    assert not standby.leads
    return found


def logged(replica: Replica, message: str) -> str:
    """Time of the first line with that message."""
    lines = [json.loads(line) for line in replica.log.read_text().splitlines() if line.startswith("{")]
    return next(str(line["time"]) for line in lines if message in line["message"])


def test_the_standby_takes_over_when_the_leader_is_killed(pair: Pair) -> None:
    transitions = pair.lease()["leaseTransitions"]
    pair.leader.signal(signal.SIGKILL)
    pair.standby_takes_over()
    assert pair.lease()["leaseTransitions"] == transitions + 1


def test_a_leader_that_is_stopped_releases_the_lease_and_exits_with_success(pair: Pair) -> None:
    pair.leader.signal(signal.SIGTERM)
    assert pair.leader.exit_code() == 0, pair.leader.log.read_text()
    assert logged(pair.leader, "released the Lease")
    pair.standby_takes_over()
    assert logged(pair.standby, "the Lease has no holder")
    pair.standby.signal(signal.SIGTERM)
    assert pair.standby.exit_code() == 0


def test_a_leader_that_loses_its_connection_stops_before_the_standby_starts(pair: Pair, wire: Wire) -> None:
    wire.cut()
    assert pair.leader.exit_code() == 1
    pair.standby_takes_over()
    assert logged(pair.leader, "leadership lost") < logged(pair.standby, "is the leader")


def test_a_leader_that_was_suspended_exits_when_it_resumes(pair: Pair) -> None:
    pair.leader.signal(signal.SIGSTOP)
    pair.standby_takes_over()
    holder = pair.lease()["holderIdentity"]
    assert pair.leader.page("/healthz", seconds=1) == (0, "")
    pair.leader.signal(signal.SIGCONT)
    assert pair.leader.exit_code() in (1, 70)
    assert pair.lease()["holderIdentity"] == holder


def test_without_the_api_server_a_replica_is_healthy_but_not_ready(
    namespace: str, start: Start, wire: Wire, api_server: ApiServer, tmp_path: Path
) -> None:
    wire.cut()
    replica = start(wire.kubeconfig(api_server, to=tmp_path / "kubeconfig"), "alone")
    replica.wait_for("a failure to read the lease", lambda: "GET /apis/coordination" in replica.log.read_text())
    assert replica.is_alive
    assert not replica.is_ready
    assert "not answered successfully yet" in replica.page("/readyz")[1]

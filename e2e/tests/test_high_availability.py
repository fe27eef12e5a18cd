"""Two replicas of the operator: one is the leader, the other takes over when it is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stories import eventually, lease, manifest, operator_pod, operator_pods

from epd_local.demo.deployment import Deployment
from epd_local.demo.installation import SYSTEM_NAMESPACE, Installation

OPERATOR = "deployment/epd-operator"
KINDS = {"Deployment/other-frontend", "Deployment/other-worker", "Service/other"}


@pytest.fixture
def pair(installation: Installation) -> Iterator[Installation]:
    """The operator with two replicas, both ready; afterwards one replica again."""
    installation.kubectl.run("scale", OPERATOR, "-n", SYSTEM_NAMESPACE, "--replicas=2")
    try:
        eventually(lambda: ready(installation) == 2, what=lambda: operator_pods(installation))
        eventually(lambda: holder(installation) in names(installation), what=lambda: lease(installation))
        yield installation
    finally:
        installation.kubectl.run("scale", OPERATOR, "-n", SYSTEM_NAMESPACE, "--replicas=1")
        installation.kubectl.run("rollout", "status", OPERATOR, "-n", SYSTEM_NAMESPACE, "--timeout=120s")


def names(installation: Installation) -> set[str]:
    return {pod["metadata"]["name"] for pod in operator_pods(installation)}


def ready(installation: Installation) -> int:
    """Number of ready pods of the operator."""
    conditions = [c for pod in operator_pods(installation) for c in pod.get("status", {}).get("conditions", ())]
    return sum(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def holder(installation: Installation) -> str:
    """The pod that holds the Lease."""
    return str(lease(installation).get("holderIdentity", "")).rpartition("_")[0]


def test_a_standby_finishes_what_a_killed_leader_began(pair: Installation, other: Deployment, tmp_path: Path) -> None:
    leader, transitions = operator_pod(pair), lease(pair)["leaseTransitions"]
    other.apply(manifest(tmp_path, name=other.name))
    pair.kubectl.run("delete", "pod", leader, "-n", SYSTEM_NAMESPACE, "--force", "--grace-period=0")
    eventually(lambda: set(other.leftovers()) >= KINDS, what=other.leftovers)
    eventually(lambda: other.condition("Ready").get("observedGeneration") == 1, what=other.get)
    eventually(lambda: holder(pair) in names(pair) - {leader}, what=lambda: lease(pair))
    assert lease(pair)["leaseTransitions"] > transitions
    eventually(lambda: ready(pair) == 2, what=lambda: operator_pods(pair))


def test_a_rolling_update_of_the_operator_succeeds_although_only_one_replica_is_leader(pair: Installation) -> None:
    before = names(pair)
    pair.kubectl.run("rollout", "restart", OPERATOR, "-n", SYSTEM_NAMESPACE)
    pair.kubectl.run("rollout", "status", OPERATOR, "-n", SYSTEM_NAMESPACE, "--timeout=300s")
    eventually(lambda: holder(pair) in names(pair) - before, what=lambda: lease(pair))

"""Applying a plan to a cluster in memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from epd_operator.cluster.apply import apply_plan
from epd_operator.cluster.errors import ClusterError, ConflictError, FaultError, NotFoundError, RefusedError
from epd_operator.objects.identity import Identity
from epd_operator.objects.kinds import Kind
from epd_operator.plan.observation import ChildKey, Observation
from epd_operator.plan.planner import Plan, make_plan
from support.memory import MemoryCluster
from support.specs import spec

OBSERVATION = Observation(identity=Identity(name="qwen", namespace="serving", uid="u-1"), generation=1)
SCALE = ChildKey("EPDStageScale", "qwen-worker")


class Cluster(MemoryCluster):
    """Counts the reads of each object."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    async def get(self, kind: Kind, *, namespace: str, name: str) -> dict[str, Any] | None:
        self.reads[f"{kind.kind} {name}"] += 1
        return await super().get(kind, namespace=namespace, name=name)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def externally_scaled_plan() -> Plan:
    autoscaling = {"mode": "External", "maxReplicas": 9}
    worker = {"pool": "gb200", "replicas": 3, "autoscaling": autoscaling}
    return make_plan(spec("Aggregated", worker=worker), observation=OBSERVATION)


async def test_each_new_child_is_read_once_before_it_is_created(cluster: Cluster) -> None:
    plan = externally_scaled_plan()
    outcome = await apply_plan(cluster, plan=plan, observation=OBSERVATION)
    assert "replicas of EPDStageScale qwen-worker" in outcome.written
    assert cluster.reads == {f"{key.kind} {key.name}": 1 for key in map(ChildKey.of, plan.apply)}


async def test_a_scale_object_of_another_owner_gets_no_initial_replicas(cluster: Cluster) -> None:
    cluster.objects[SCALE.kind, SCALE.name] = {"metadata": {"name": SCALE.name}}
    outcome = await apply_plan(cluster, plan=externally_scaled_plan(), observation=OBSERVATION)
    assert SCALE in outcome.foreign_owners
    assert "APPLY EPDStageScale" not in cluster.writes


async def test_refused_initial_replicas_do_not_block_other_children(cluster: Cluster) -> None:
    cluster.failures["APPLY", SCALE.kind] = RefusedError("a policy says no", request="APPLY", status=403)
    outcome = await apply_plan(cluster, plan=externally_scaled_plan(), observation=OBSERVATION)
    assert outcome.refused == {SCALE: "a policy says no"}
    assert ("Deployment", "qwen-worker") in cluster.objects


@pytest.mark.parametrize("kind", [ConflictError, FaultError, NotFoundError, RefusedError])
async def test_a_failed_write_of_a_deletion_cost_does_not_delay_scaling_down(
    cluster: Cluster, kind: type[ClusterError]
) -> None:
    cluster.failures["APPLY", "Pod"] = kind("no", request="APPLY")
    pod = {"kind": "Pod", "metadata": {"name": "a", "namespace": "serving"}}
    plan = replace(make_plan(spec("Aggregated"), observation=OBSERVATION), deletion_costs=(pod,))
    outcome = await apply_plan(cluster, plan=plan, observation=OBSERVATION)
    assert "Deployment qwen-worker" in outcome.written
    assert (outcome.fault, outcome.refused) == (None, {})

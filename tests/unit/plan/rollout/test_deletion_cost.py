"""Which pods go when a stage shrinks."""

from __future__ import annotations

from typing import Any

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import COMPONENT_LABEL, Identity, StageKey
from epd_operator.plan.observation import ChildKey, Observation
from epd_operator.plan.planner import make_plan
from epd_operator.plan.rollout.deletion_cost import DELETION_COST
from epd_operator.scaling.model import Decision, ScalingReason
from support.specs import spec

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
SCALED = {"maxReplicas": 9, "metrics": [{"type": "Requests", "targetPerReplica": 8}]}


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    labels = {COMPONENT_LABEL: "encoder"}
    return {"metadata": {"name": name, "namespace": "serving", "uid": f"u-{name}", "labels": labels, **metadata}}


def costs(*pods: dict[str, Any], desired: int, loads: dict[str, float]) -> dict[str, str]:
    decision = Decision(
        stage=StageKey(StageName.ENCODER),
        current=3,
        desired=desired,
        reason=ScalingReason.LOAD_BELOW_TARGET,
        message="",
    )
    observation = Observation(
        identity=IDENTITY,
        generation=1,
        children={ChildKey("Deployment", "qwen-encoder"): {"spec": {"replicas": 3}}},
        pods=pods,
        decisions={StageKey(StageName.ENCODER): decision},
        loads=loads,
    )
    plan = make_plan(spec(encoder={"pool": "rtx", "autoscaling": SCALED}), observation=observation)
    return {p["metadata"]["name"]: p["metadata"]["annotations"][DELETION_COST] for p in plan.deletion_costs}


def test_the_least_busy_pods_go_when_a_stage_shrinks() -> None:
    loads = {"a": 5.0, "b": 0.0, "c": 2.0}
    assert costs(pod("a"), pod("b"), pod("c"), desired=2, loads=loads) == {"a": "5", "c": "2"}


def test_nothing_is_written_to_pods_of_a_stage_that_does_not_shrink() -> None:
    assert costs(pod("a"), desired=3, loads={"a": 5.0}) == {}
    assert costs(pod("a"), desired=4, loads={"a": 5.0}) == {}


def test_a_pod_that_is_leaving_already_is_never_chosen_again() -> None:
    leaving = pod("a", deletionTimestamp="2026-01-01T00:00:00Z")
    assert costs(leaving, pod("b"), desired=2, loads={"a": 1.0, "b": 2.0}) == {"b": "2"}


def test_a_cost_that_is_there_is_not_written_again_and_an_unknown_load_writes_none() -> None:
    assert costs(pod("a", annotations={DELETION_COST: "5"}), pod("b"), desired=2, loads={"a": 5.0}) == {}


def test_a_pod_that_has_ended_gets_no_cost() -> None:
    ended = {**pod("a"), "status": {"phase": "Failed", "reason": "Evicted"}}
    assert costs(ended, pod("b"), desired=2, loads={"a": 1.0, "b": 2.0}) == {"b": "2"}

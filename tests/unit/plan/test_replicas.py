"""Who decides how many replicas a stage gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import Identity, StageKey
from epd_operator.plan.observation import ChildKey, Observation
from epd_operator.plan.planner import Plan, make_plan
from epd_operator.plan.status.builder import status_of
from epd_operator.scaling.model import Decision, ScalingReason
from support.specs import spec
from support.world import NOW, World

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
INTERNAL = {"minReplicas": 2, "maxReplicas": 5, "metrics": [{"type": "Requests", "targetPerReplica": 8}]}
SCALE = ChildKey("EPDStageScale", "qwen-encoder")


def scaled(autoscaling: dict[str, Any], replicas: int = 3) -> EPDDeploymentSpec:
    return spec(encoder={"pool": "rtx", "replicas": replicas, "autoscaling": autoscaling})


def encoders(plan: Plan) -> int:
    (found,) = [stage.replicas for stage in plan.stages if stage.name == "encoder"]
    return found


def decided(desired: int, reason: ScalingReason = ScalingReason.LOAD_ABOVE_TARGET) -> Decision:
    return Decision(
        stage=StageKey(StageName.ENCODER),
        current=2, desired=desired, reason=reason, message="load 20 of 8 per replica",
        signal="requests", value=20.0, target=8.0, metric_age_seconds=3.4,
    )  # fmt: skip


def with_decision(observation: Observation, decision: Decision) -> Observation:
    return replace(observation, decisions={StageKey(StageName.ENCODER): decision})


def test_a_stage_begins_with_the_replicas_of_the_spec_within_its_limits() -> None:
    empty = World(IDENTITY).observation()
    assert encoders(make_plan(scaled(INTERNAL), observation=empty)) == 3
    assert encoders(make_plan(scaled(INTERNAL, replicas=1), observation=empty)) == 2
    assert encoders(make_plan(scaled(INTERNAL, replicas=9), observation=empty)) == 5


def test_a_decision_sets_the_replicas() -> None:
    observation = with_decision(World(IDENTITY).observation(), decided(4))
    assert encoders(make_plan(scaled(INTERNAL), observation=observation)) == 4


def test_a_restart_of_the_operator_does_not_scale() -> None:
    world = World(IDENTITY)
    world.apply(make_plan(scaled(INTERNAL), observation=with_decision(world.observation(), decided(5))))
    plan = make_plan(scaled(INTERNAL), observation=world.observation())
    assert encoders(plan) == 5
    assert plan.apply == ()


def test_without_autoscaling_a_decision_counts_for_nothing() -> None:
    observation = with_decision(World(IDENTITY).observation(), decided(4))
    assert encoders(make_plan(spec(encoder={"pool": "rtx", "replicas": 1}), observation=observation)) == 1


def test_an_external_autoscaler_gets_a_scale_object_that_begins_with_the_replicas_of_the_spec() -> None:
    plan = make_plan(scaled({"mode": "External", "maxReplicas": 9}), observation=World(IDENTITY).observation())
    assert SCALE in {ChildKey.of(child) for child in plan.children}
    assert [first["spec"] for first in plan.seeds] == [{"replicas": 3}]


def test_a_stage_that_is_handed_to_an_external_autoscaler_keeps_what_it_has() -> None:
    world = World(IDENTITY)
    world.apply(make_plan(scaled(INTERNAL), observation=with_decision(world.observation(), decided(5))))
    plan = make_plan(scaled({"mode": "External", "maxReplicas": 9}), observation=world.observation())
    assert encoders(plan) == 5
    assert [first["spec"] for first in plan.seeds] == [{"replicas": 5}]


def test_the_operator_never_plans_the_replicas_of_a_scale_object() -> None:
    plan = make_plan(scaled({"mode": "External", "maxReplicas": 9}), observation=World(IDENTITY).observation())
    assert "spec" not in next(child for child in plan.children if ChildKey.of(child) == SCALE)


def test_what_the_external_autoscaler_writes_is_followed_within_the_limits() -> None:
    world, wanted = World(IDENTITY), scaled({"mode": "External", "minReplicas": 2, "maxReplicas": 9})
    world.apply(make_plan(wanted, observation=world.observation()))
    for written, followed in ((7, 7), (99, 9), (0, 2)):
        world.children[SCALE]["spec"] = {"replicas": written}
        plan = make_plan(wanted, observation=world.observation())
        assert encoders(plan) == followed
        assert SCALE not in {ChildKey.of(child) for child in plan.apply}
        assert plan.seeds == ()


def test_autoscalers_learn_how_many_pods_there_are_and_which() -> None:
    world, wanted = World(IDENTITY), scaled({"mode": "External", "maxReplicas": 9})
    world.apply(make_plan(wanted, observation=world.observation()))
    world.step()
    (scale,) = make_plan(wanted, observation=world.observation()).scale_statuses
    assert scale["status"] == {
        "replicas": 1,
        "selector": "app.kubernetes.io/component=encoder,epd.dev/deployment=qwen,epd.dev/revision=initial",
    }
    world.children[SCALE]["status"] = scale["status"]
    assert make_plan(wanted, observation=world.observation()).scale_statuses == ()


def test_the_scale_object_goes_when_the_mode_changes() -> None:
    world = World(IDENTITY)
    world.apply(make_plan(scaled({"mode": "External", "maxReplicas": 9}), observation=world.observation()))
    assert SCALE in make_plan(scaled(INTERNAL), observation=world.observation()).delete


def test_status_shows_the_last_decision_and_keeps_it_over_a_restart() -> None:
    world, wanted = World(IDENTITY), scaled(INTERNAL)
    observation = with_decision(world.observation(), decided(4))

    def shown(seen: Observation, now: str) -> dict[str, Any]:
        status = status_of(wanted, plan=make_plan(wanted, observation=seen), observation=seen, now=now)
        world.status = status
        found: dict[str, Any] = next(s for s in status["stages"] if s["name"] == "encoder")["scaling"]
        return found

    first = shown(observation, NOW)
    assert first == {
        "current": 2, "desired": 4, "reason": "LoadAboveTarget", "message": "load 20 of 8 per replica",
        "signal": "requests", "value": "20", "target": "8", "metricAgeSeconds": 3, "lastChangeTime": NOW,
    }  # fmt: skip
    later = "2026-01-02T00:00:00Z"
    assert shown(world.observation(), later) == first
    assert shown(with_decision(world.observation(), decided(4)), later)["lastChangeTime"] == NOW
    assert shown(with_decision(world.observation(), decided(5)), later)["lastChangeTime"] == later

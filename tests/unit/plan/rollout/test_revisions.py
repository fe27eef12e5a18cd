"""Whole rollouts, replayed without a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import REVISION_LABEL, Identity
from epd_operator.plan.observation import ChildKey
from epd_operator.plan.planner import Plan, make_plan
from epd_operator.plan.rollout.revisions import plan_rollout
from epd_operator.plan.status.builder import status_of
from support.specs import raw_spec, spec
from support.world import NOW, World

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
SERVICE = ChildKey("Service", "qwen")
IMAGE = {"image": "example.test/epd:2"}
MAX_ROUNDS = 60


def round_of(world: World, wanted: EPDDeploymentSpec) -> Plan:
    """One reconcile, and one step of Kubernetes."""
    observation = world.observation()
    plan = make_plan(wanted, observation=observation)
    world.status = status_of(wanted, plan=plan, observation=observation, now=NOW)
    world.apply(plan)
    world.step()
    return plan


def settle(world: World, wanted: EPDDeploymentSpec) -> None:
    for _ in range(MAX_ROUNDS):
        plan = round_of(world, wanted)
        if not plan.apply and not plan.delete and condition(world)["status"] == "True":
            return
    raise AssertionError(world.status)


def condition(world: World, kind: str = "Ready") -> dict[str, Any]:
    return next(c for c in world.status["conditions"] if c["type"] == kind)


def deployments(world: World) -> set[str]:
    return {key.name for key in world.children if key.kind == "Deployment"}


def selected(world: World) -> str:
    return str(world.children[SERVICE]["spec"]["selector"][REVISION_LABEL])


def records(world: World) -> list[int]:
    return sorted(child["revision"] for key, child in world.children.items() if key.kind == "ControllerRevision")


@pytest.mark.parametrize("before", ["Aggregated", "CoLocated", "Disaggregated"])
@pytest.mark.parametrize("after", ["Aggregated", "CoLocated", "Disaggregated"])
def test_in_a_switch_of_the_topology_all_stages_of_the_revision_that_serves_keep_their_pods(
    before: str, after: str
) -> None:
    world, wanted = World(IDENTITY), spec(after, runtime=IMAGE)
    settle(world, spec(before))
    for _ in range(MAX_ROUNDS):
        serving = selected(world)
        round_of(world, wanted)
        for key, child in world.children.items():
            labels = child["metadata"].get("labels", {})
            if key.kind == "Deployment" and labels[REVISION_LABEL] == serving == selected(world):
                assert child["spec"]["replicas"] == child["status"]["readyReplicas"] > 0
        if condition(world)["status"] == "True" and selected(world) != "initial":
            break
    assert world.status["topology"] == after
    (revision,) = world.status["revisions"]
    assert revision["name"] == selected(world)
    assert all(name.endswith(f"-{revision['name']}") for name in deployments(world))


def test_the_status_shows_both_revisions_and_the_stages_of_the_one_that_serves() -> None:
    world = World(IDENTITY)
    settle(world, spec("Disaggregated"))
    round_of(world, spec("Aggregated"))
    round_of(world, spec("Aggregated"))
    assert [(r["state"], r["topology"]) for r in world.status["revisions"]] == [
        ("Serving", "Disaggregated"),
        ("Starting", "Aggregated"),
    ]
    assert {stage["name"] for stage in world.status["stages"]} == {"frontend", "encoder", "pd"}
    assert condition(world, "Available")["status"] == "True"
    assert condition(world)["message"].startswith("revision ")


def test_a_revision_that_does_not_answer_gets_no_requests_and_the_status_quotes_the_answer() -> None:
    world = World(IDENTITY)
    settle(world, spec())
    world.answers = False
    for _ in range(MAX_ROUNDS):
        round_of(world, spec(runtime=IMAGE))
    assert selected(world) == "initial"
    assert condition(world)["reason"] == "VerificationFailed"
    assert "asked for a word" in condition(world)["message"]
    assert condition(world, "Available")["status"] == "True"


def test_an_edit_back_in_the_middle_ends_where_it_began_and_the_service_never_moves() -> None:
    world = World(IDENTITY)
    settle(world, spec())
    before = deployments(world)
    for _ in range(3):
        round_of(world, spec(runtime=IMAGE))
    assert deployments(world) > before
    settle(world, spec())
    assert (deployments(world), selected(world)) == (before, "initial")


def test_ten_edits_in_a_row_end_in_one_revision() -> None:
    world = World(IDENTITY)
    settle(world, spec())
    for number in range(10):
        round_of(world, spec(runtime={"image": f"example.test/epd:{number + 2}"}))
    settle(world, spec(runtime={"image": "example.test/epd:11"}))
    assert len(deployments(world)) == 3
    assert selected(world) != "initial"


def test_an_undo_after_the_rollout_uses_the_name_of_the_earlier_revision_again() -> None:
    world = World(IDENTITY)
    settle(world, spec())
    settle(world, spec(runtime=IMAGE))
    settle(world, spec())
    assert selected(world) == "initial"
    assert deployments(world) == {"qwen-frontend", "qwen-encoder", "qwen-pd"}
    assert records(world) == [2, 3], "the spec that came back is the latest again"


def test_an_encoder_only_change_touches_no_pd_pod_and_a_pd_change_no_encoder() -> None:
    world = World(IDENTITY)
    settle(world, spec())
    encoder = {"pool": "rtx", "replicas": 2, "resources": {"limits": {"cpu": "2"}}}
    changed = [ChildKey.of(c).name for c in make_plan(spec(encoder=encoder), observation=world.observation()).apply]
    assert [name for name in changed if name in deployments(world)] == ["qwen-encoder"]
    pd = {"pool": "gb200", "replicas": 3, "args": ["--max-num-seqs", "4"]}
    changed = [ChildKey.of(c).name for c in make_plan(spec(pd=pd), observation=world.observation()).apply]
    assert [name for name in changed if name in deployments(world)] == ["qwen-pd"]


def test_a_revision_that_starts_gets_the_replicas_that_autoscaling_has_given_the_old_one() -> None:
    world = World(IDENTITY)
    scaled = {"maxReplicas": 9, "metrics": [{"type": "Requests", "targetPerReplica": 8}]}
    pd = {"pool": "gb200", "replicas": 1, "autoscaling": scaled}
    settle(world, spec(pd=pd))
    world.children[ChildKey("Deployment", "qwen-pd")]["spec"]["replicas"] = 6
    settle(world, spec(pd=pd))
    plan = make_plan(spec(pd=pd, runtime=IMAGE), observation=world.observation())
    assert {s.key.revision: s.replicas for s in plan.stages if s.name == "pd"} == {"": 6, plan.rollout.target.name: 6}


def test_a_first_revision_that_never_became_ready_is_replaced_at_once() -> None:
    world = World(IDENTITY)
    round_of(world, spec("Aggregated"))
    world.children[ChildKey("Deployment", "qwen-worker")]["status"] = {}
    plan = round_of(world, spec("Aggregated", runtime=IMAGE))
    assert {key.name for key in plan.delete} == {"qwen-frontend", "qwen-worker"}
    assert selected(world) == plan.rollout.target.name


def test_an_object_from_before_revisions_starts_a_second_one_when_the_service_selects_only_the_first() -> None:
    world = World(IDENTITY)
    settle(world, spec())
    # As an operator before revisions has left it: no records, and a Service that selects every frontend.
    world.children = {key: child for key, child in world.children.items() if key.kind != "ControllerRevision"}
    world.children[SERVICE]["spec"]["selector"].pop(REVISION_LABEL)
    round_of(world, spec())
    assert selected(world) == "initial"
    settle(world, spec(runtime=IMAGE))
    assert selected(world) != "initial"


def test_the_present_spec_and_a_limited_number_of_earlier_ones_are_recorded() -> None:
    world = World(IDENTITY)
    for number in range(6):
        wanted = spec(drain={"timeoutSeconds": number + 1}, rollout={"revisionHistoryLimit": 2})
        settle(world, wanted)
    assert records(world) == [4, 5, 6]


@pytest.mark.parametrize("content", [None, {}, {"spec": None}, {"spec": {"topology": "Unknown"}}, {"spec": []}])
def test_a_record_that_another_client_has_spoilt_stops_no_rollout(content: Any) -> None:
    world = World(IDENTITY)
    settle(world, spec())
    for key, child in world.children.items():
        if key.kind == "ControllerRevision":
            child["data"] = content
    wanted = EPDDeploymentSpec.model_validate(raw_spec(runtime=IMAGE))
    for _ in range(MAX_ROUNDS):
        round_of(world, wanted)
    assert selected(world) != "initial"
    assert all("-" in name.removeprefix("qwen-") for name in deployments(world))


def test_the_service_is_put_right_if_another_client_makes_it_select_a_revision_without_pods() -> None:
    world = World(IDENTITY)
    settle(world, spec())
    settle(world, spec(runtime=IMAGE))
    serving, before = selected(world), deployments(world)
    for wrong in ({}, {REVISION_LABEL: "initial"}, {REVISION_LABEL: "beef"}):
        selector = {k: v for k, v in world.children[SERVICE]["spec"]["selector"].items() if k != REVISION_LABEL}
        world.children[SERVICE]["spec"]["selector"] = {**selector, **wrong}
        settle(world, spec(runtime=IMAGE))
        assert (selected(world), deployments(world)) == (serving, before)


def test_a_paused_rollout_keeps_the_pods_of_both_revisions_and_goes_on_afterwards() -> None:
    world = World(IDENTITY)
    settle(world, spec())
    for _ in range(3):
        round_of(world, spec(runtime=IMAGE))
    before = deployments(world)
    for _ in range(20):
        round_of(world, spec(runtime=IMAGE, rollout={"paused": True}))
    assert (deployments(world), selected(world)) == (before, "initial")
    assert condition(world)["reason"] == "RolloutPaused"
    settle(world, spec(runtime=IMAGE))
    assert selected(world) != "initial"


def test_a_new_object_starts_although_rollouts_are_paused_and_then_its_deployments_are_paused() -> None:
    world, wanted = World(IDENTITY), spec("Aggregated", rollout={"paused": True})
    plan = make_plan(wanted, observation=world.observation())
    assert all("paused" not in child["spec"] for child in plan.children if child["kind"] == "Deployment")
    settle(world, wanted)
    worker = world.children[ChildKey("Deployment", "qwen-worker")]
    assert worker["spec"]["paused"] is True
    settle(world, spec("Aggregated"))
    assert "paused" not in world.children[ChildKey("Deployment", "qwen-worker")]["spec"]


def test_recreate_has_never_pods_of_two_revisions() -> None:
    world, wanted = World(IDENTITY), spec("Aggregated", rollout={"strategy": "Recreate"})
    settle(world, spec())
    for _ in range(MAX_ROUNDS):
        round_of(world, wanted)
        running = {
            child["metadata"]["labels"][REVISION_LABEL]
            for key, child in world.children.items()
            if key.kind == "Deployment" and child["status"]["replicas"]
        }
        assert len(running) <= 1
    assert condition(world)["status"] == "True"
    assert world.status["topology"] == "Aggregated"


def test_a_revision_whose_record_is_lost_serves_on_with_its_budgets_and_its_pods_decide_on_available() -> None:
    world, wanted = World(IDENTITY), spec("Aggregated")
    settle(world, spec("CoLocated"))
    settle(world, spec("Disaggregated"))
    serving = selected(world)
    lost = [key for key, child in world.children.items() if child["metadata"]["labels"].get(REVISION_LABEL) == serving]
    for key in lost:
        if key.kind == "ControllerRevision":
            del world.children[key]
    plan = round_of(world, wanted)
    assert (plan.rollout.serving.name, plan.rollout.serving.spec) == (serving, None)
    assert {"qwen-encoder", "qwen-pd"} <= {key.name for key in world.children if key.kind == "PodDisruptionBudget"}
    assert condition(world, "Available")["status"] == "True"
    world.children[ChildKey("Deployment", f"qwen-pd-{serving}")]["status"]["readyReplicas"] = 0
    observation = world.observation()
    status = status_of(wanted, plan=make_plan(wanted, observation=observation), observation=observation, now=NOW)
    (available,) = [c for c in status["conditions"] if c["type"] == "Available"]
    assert (available["status"], available["reason"]) == ("False", "NoReadyPods")


def test_an_edit_before_any_reconcile_has_seen_the_ready_pods_does_not_remove_them() -> None:
    world = World(IDENTITY)
    round_of(world, spec("Aggregated"))
    for _ in range(5):
        world.step()
    plan = round_of(world, spec("CoLocated"))
    assert plan.delete == ()
    assert selected(world) == "initial"


def test_if_all_records_are_lost_between_two_revisions_both_keep_their_pods() -> None:
    world = World(IDENTITY)
    settle(world, spec("Aggregated"))
    for _ in range(2):
        round_of(world, spec("Disaggregated"))
    before = deployments(world)
    world.children = {key: child for key, child in world.children.items() if key.kind != "ControllerRevision"}
    for _ in range(3):
        round_of(world, spec("Disaggregated"))
        assert deployments(world) >= before
        assert selected(world) == "initial"


def test_if_the_records_are_lost_before_a_switch_of_the_topology_the_old_pods_serve_until_the_new_ones_do() -> None:
    world = World(IDENTITY)
    settle(world, spec("Aggregated"))
    for key in [key for key in world.children if key.kind == "ControllerRevision"]:
        del world.children[key]
    while selected(world) == "initial":
        round_of(world, spec("CoLocated"))
        assert {"qwen-frontend", "qwen-worker"} <= deployments(world)
    settle(world, spec("CoLocated"))
    assert deployments(world) == {f"qwen-{stage}-{selected(world)}" for stage in ("frontend", "group")}


def test_if_the_service_is_lost_in_an_undo_the_revision_that_serves_keeps_the_requests() -> None:
    world = World(IDENTITY)
    settle(world, spec("Aggregated"))
    settle(world, spec("CoLocated"))
    serving = selected(world)
    round_of(world, spec("Aggregated"))
    del world.children[SERVICE]
    round_of(world, spec("Aggregated"))
    assert selected(world) == serving
    assert any(name.endswith(serving) for name in deployments(world))


def test_a_client_cannot_move_the_requests_to_a_revision_that_has_not_answered() -> None:
    world = World(IDENTITY)
    settle(world, spec("Aggregated"))
    world.answers = False
    for _ in range(10):
        plan = round_of(world, spec("CoLocated"))
    world.children[SERVICE]["spec"]["selector"][REVISION_LABEL] = plan.rollout.target.name
    round_of(world, spec("CoLocated"))
    assert selected(world) == "initial"
    assert {"qwen-worker", "qwen-frontend"} <= deployments(world)


def test_edits_in_place_while_a_stage_is_down_do_not_make_the_revision_one_that_never_served() -> None:
    world = World(IDENTITY)
    settle(world, spec())
    world.children[ChildKey("Deployment", "qwen-encoder")]["status"] = {"observedGeneration": 1}
    for seconds in (5, 6):
        wanted = spec(drain={"timeoutSeconds": seconds}, rollout={"revisionHistoryLimit": 0})
        world.apply(make_plan(wanted, observation=world.observation()))
    plan = make_plan(spec("Aggregated", rollout={"revisionHistoryLimit": 0}), observation=world.observation())
    assert plan.delete == () or all(key.kind == "ControllerRevision" for key in plan.delete)
    assert plan.rollout.serving.name == ""


@pytest.mark.parametrize("strategy", ["BlueGreen", "Rolling", "Recreate"])
def test_a_stage_that_was_drained_gets_the_replicas_that_autoscaling_had_given_it(strategy: str) -> None:
    world = World(IDENTITY)
    scaled = {"maxReplicas": 9, "metrics": [{"type": "Requests", "targetPerReplica": 8}]}
    worker = {"pool": "gb200", "replicas": 1, "autoscaling": scaled}
    first = spec("Aggregated", worker=worker, rollout={"strategy": strategy})
    settle(world, first)
    world.children[ChildKey("Deployment", "qwen-worker")]["spec"]["replicas"] = 5
    settle(world, first)
    other = spec("Aggregated", worker=worker, runtime=IMAGE, rollout={"strategy": strategy})
    for _ in range(MAX_ROUNDS):
        round_of(world, other)
        workers = [c for k, c in world.children.items() if k.kind == "Deployment" and k.name.startswith("qwen-worker")]
        if any(child["spec"]["replicas"] == 0 for child in workers):
            break
    settle(world, first)
    assert world.children[ChildKey("Deployment", "qwen-worker")]["spec"]["replicas"] == 5
    settle(world, other)
    (name,) = [name for name in deployments(world) if name.startswith("qwen-worker")]
    assert world.children[ChildKey("Deployment", name)]["spec"]["replicas"] == 5


def test_a_rollout_that_is_paused_while_the_old_revision_is_drained_stops_there() -> None:
    world = World(IDENTITY)
    settle(world, spec())
    while not any(name == "qwen-pd" for name in deployments(world)) or selected(world) == "initial":
        round_of(world, spec(runtime=IMAGE))
    before = deployments(world)
    for _ in range(5):
        round_of(world, spec(runtime=IMAGE, rollout={"paused": True}))
    assert deployments(world) == before
    assert condition(world)["reason"] == "RolloutPaused"
    settle(world, spec(runtime=IMAGE))
    assert "qwen-pd" not in deployments(world)


ROLLING = {"strategy": "Rolling"}


def workers(world: World) -> dict[str, int]:
    """Planned pods of the workers of each revision."""
    return {
        child["metadata"]["labels"][REVISION_LABEL]: child["spec"]["replicas"]
        for key, child in world.children.items()
        if key.kind == "Deployment" and child["metadata"]["labels"]["app.kubernetes.io/component"] == "worker"
    }


def test_rolling_replaces_the_pods_of_a_full_pool_with_no_more_than_the_gpus_of_the_old_revision() -> None:
    world = World(IDENTITY)
    worker = {"pool": "gb200", "replicas": 4, "gpusPerReplica": 2}
    settle(world, spec("Aggregated", worker=worker))
    for _ in range(MAX_ROUNDS):
        round_of(world, spec("Aggregated", worker=worker, runtime=IMAGE, rollout=ROLLING))
        assert sum(workers(world).values()) <= 4
        ready = world.children[ChildKey("Deployment", "-".join(["qwen-worker", *named(selected(world))]))]["status"]
        assert ready["readyReplicas"] >= 2
    assert condition(world)["status"] == "True"
    assert workers(world) == {selected(world): 4}
    assert selected(world) != "initial"


def named(revision: str) -> list[str]:
    return [] if revision == "initial" else [revision]


def test_one_replica_on_a_full_pool_gets_a_condition_with_what_each_strategy_costs() -> None:
    world = World(IDENTITY)
    worker = {"pool": "gb200", "replicas": 1, "gpusPerReplica": 8}
    settle(world, spec("Aggregated", worker=worker))
    wanted = spec("Aggregated", worker=worker, runtime=IMAGE, rollout=ROLLING)
    for _ in range(5):
        plan = round_of(world, wanted)
    assert workers(world) == {"initial": 1}
    assert condition(world, "Available")["status"] == "True"
    assert (condition(world)["reason"], condition(world)["message"]) == (
        "RolloutBlocked",
        f"revision {plan.rollout.target.name} does not start, and initial serves on: beside the pods of revision "
        "initial that must remain, 8 GPUs of pool gb200 are missing: add nodes or set spec.rollout.strategy: BlueGreen "
        "needs 8 GPUs of pool gb200 beside those of revision initial; Rolling needs 8 GPUs of pool gb200 more, with "
        "spec.rollout.maxSurgeGpus 8; Recreate needs no further GPUs, but answers no requests until the new revision "
        "is ready",
    )


def test_a_gpu_budget_that_both_revisions_together_would_exceed_stops_the_rollout_with_a_condition() -> None:
    world = World(IDENTITY)
    settle(world, spec("Aggregated"))
    for _ in range(5):
        round_of(world, spec("Aggregated", runtime=IMAGE, scaling={"gpuBudget": 3}))
    assert workers(world) == {"initial": 2}
    message = condition(world)["message"]
    assert "both revisions together would have more GPUs than spec.scaling.gpuBudget" in message
    assert "BlueGreen needs 2 GPUs of pool gb200 beside those of revision initial (1 above spec.scaling.gpuB" in message
    assert "Rolling needs no further GPUs, and has fewer pods that serve meanwhile" in message
    settle(world, spec("Aggregated", runtime=IMAGE, scaling={"gpuBudget": 3}, rollout=ROLLING))
    assert selected(world) != "initial"


def test_decisions_of_autoscaling_do_not_shrink_a_stage_that_a_rollout_has_shrunk() -> None:
    world = World(IDENTITY)
    scaled = {"maxReplicas": 9, "metrics": [{"type": "Requests", "targetPerReplica": 8}]}
    worker = {"pool": "gb200", "replicas": 1, "autoscaling": scaled}
    settle(world, spec("Aggregated", worker=worker))
    world.children[ChildKey("Deployment", "qwen-worker")]["spec"]["replicas"] = 6
    settle(world, spec("Aggregated", worker=worker))
    wanted = spec("Aggregated", worker=worker, runtime=IMAGE, rollout=ROLLING)
    seen = set()
    for _ in range(MAX_ROUNDS):
        world.scale_as_seen()
        plan = round_of(world, wanted)
        seen.add(tuple(sorted(workers(world).values())))
        assert sum(workers(world).values()) <= 6
        assert plan.rollout.gpus_beside <= 3
    assert (3, 3) in seen
    assert workers(world) == {selected(world): 6}
    assert condition(world)["status"] == "True"


def test_a_ready_revision_is_used_if_the_strategy_becomes_recreate_while_it_waits_for_its_first_answer() -> None:
    world = World(IDENTITY)
    settle(world, spec())
    world.answers = False
    for _ in range(20):
        plan = round_of(world, spec("Aggregated"))
    assert condition(world)["reason"] == "VerificationFailed"
    world.answers = True
    new = {name for name in deployments(world) if name.endswith(plan.rollout.target.name)}
    for _ in range(MAX_ROUNDS):
        round_of(world, spec("Aggregated", rollout={"strategy": "Recreate"}))
        assert new <= deployments(world)
        assert condition(world, "Available")["status"] == "True"
    assert selected(world) == plan.rollout.target.name


def test_gpus_of_pods_whose_deployments_are_gone_count_until_they_have_ended() -> None:
    world = World(IDENTITY)
    settle(world, spec("Aggregated"))
    plan = make_plan(spec("Aggregated", runtime=IMAGE), observation=world.observation())
    (worker,) = [stage for stage in plan.rollout.target.stages if stage.name == "worker"]
    labels = {**worker.pod_template["metadata"]["labels"], REVISION_LABEL: "gone"}
    pod = {"metadata": {"name": "p", "labels": labels}, "spec": worker.pod_template["spec"], "status": {}}
    other = {**pod, "spec": {**pod["spec"], "nodeSelector": {"tier": "other"}}}
    ended = {**pod, "status": {"phase": "Failed"}}
    observation = replace(world.observation(), pods=(pod, other, ended))
    assert plan_rollout(spec("Aggregated", runtime=IMAGE), observation=observation).gpus_beside == 1

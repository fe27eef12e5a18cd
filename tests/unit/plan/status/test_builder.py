"""Conditions and status."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from epd_operator.objects.identity import COMPONENT_LABEL, Identity
from epd_operator.plan.observation import ChildKey, ForeignOwner, Observation
from epd_operator.plan.planner import make_plan
from epd_operator.plan.status.builder import is_unchanged, status_of, status_of_invalid
from support.specs import spec
from support.world import NOW, World

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
LATER = "2026-01-02T00:00:00Z"


def settled() -> World:
    world = World(IDENTITY)
    for _ in range(20):
        world.apply(make_plan(spec(), observation=world.observation()))
        world.step()
    return world


def status(observation: Observation, now: str = NOW) -> dict[str, Any]:
    return status_of(spec(), plan=make_plan(spec(), observation=observation), observation=observation, now=now)


def condition(found: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(c for c in found["conditions"] if c["type"] == kind)


def holds(found: dict[str, Any]) -> dict[str, str]:
    return {c["type"]: c["status"] for c in found["conditions"]}


def test_at_first_everything_waits_and_the_order_is_told() -> None:
    found = status(World(IDENTITY).observation())
    assert holds(found) == {"Ready": "False", "Available": "False", "Reconciling": "True", "Stalled": "False"}
    stages = {s["name"]: s for s in found["stages"]}
    assert stages["pd"]["reason"] == "WaitingForEncoder"
    assert found["summary"] == "frontend 0/1, encoder 0/2, pd 0/3"


def test_when_all_stages_are_ready_the_object_is() -> None:
    found = status(settled().observation())
    assert holds(found) == {"Ready": "True", "Available": "True", "Reconciling": "False", "Stalled": "False"}
    assert found["endpoint"] == "http://qwen.serving.svc:8000"
    assert found["topology"] == "Disaggregated"


def test_one_missing_pod_makes_it_unready_but_still_available() -> None:
    world = settled()
    world.children[ChildKey("Deployment", "qwen-pd")]["status"]["readyReplicas"] = 2
    found = status(world.observation())
    assert holds(found) == {"Ready": "False", "Available": "True", "Reconciling": "True", "Stalled": "False"}
    assert condition(found, "Ready")["message"].startswith("pd 2/3: ")


def test_pods_of_an_old_template_are_a_roll_out() -> None:
    world = settled()
    world.children[ChildKey("Deployment", "qwen-pd")]["status"]["updatedReplicas"] = 1
    assert condition(status(world.observation()), "Ready")["reason"] == "RollingOut"


def test_pods_that_are_too_many_are_drained_before_the_object_is_ready() -> None:
    world = settled()
    world.children[ChildKey("Deployment", "qwen-pd")]["status"].update(replicas=4, updatedReplicas=4)
    assert condition(status(world.observation()), "Ready")["reason"] == "ScalingDown"


def test_a_roll_out_is_not_over_while_an_old_pod_stands_in_for_a_new_one() -> None:
    world = settled()
    world.children[ChildKey("Deployment", "qwen-frontend")]["status"].update(replicas=2, updatedReplicas=1)
    assert condition(status(world.observation()), "Ready")["reason"] == "RollingOut"


def test_trouble_of_one_stage_is_told_before_the_roll_out_of_another() -> None:
    world = settled()
    for stage in ("frontend", "encoder"):
        world.children[ChildKey("Deployment", f"qwen-{stage}")]["status"].update(updatedReplicas=0)
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    world.children[ChildKey("Deployment", "qwen-pd")]["status"].update(
        readyReplicas=2, updatedReplicas=2, conditions=[failure]
    )
    found = condition(status(world.observation()), "Ready")
    assert found["reason"] == "PodsRefused"
    assert found["message"].startswith("pd 2/3: ")


def test_of_stages_that_are_starting_the_one_that_the_frontends_wait_for_is_told() -> None:
    found = condition(status(World(IDENTITY).observation()), "Ready")
    assert found["reason"] == "PodsStarting"
    assert found["message"].startswith("encoder 0/2: ")


def test_a_status_from_before_the_last_change_is_not_believed() -> None:
    world = settled()
    world.children[ChildKey("Deployment", "qwen-pd")]["metadata"]["generation"] += 1
    found = condition(status(world.observation()), "Ready")
    assert (found["status"], found["reason"]) == ("False", "PodsStarting")
    assert "Kubernetes has not yet processed the last change of the Deployment" in found["message"]


def test_refused_pods_are_explained_with_the_api_servers_words() -> None:
    world = settled()
    world.children[ChildKey("Deployment", "qwen-pd")]["status"] = {
        "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}]
    }
    found = condition(status(world.observation()), "Ready")
    assert found["reason"] == "PodsRefused"
    assert "exceeded quota: gpus" in found["message"]


def test_the_reason_of_a_pod_becomes_the_reason_of_the_object() -> None:
    world = settled()
    world.children[ChildKey("Deployment", "qwen-encoder")]["status"]["readyReplicas"] = 0
    pod = {
        "metadata": {"name": "qwen-encoder-x", "labels": {COMPONENT_LABEL: "encoder"}},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no GPU"}]},
    }
    found = status(replace(world.observation(), pods=(pod,)))
    assert condition(found, "Ready")["reason"] == "Unschedulable"
    assert condition(found, "Ready")["message"] == "encoder 0/2: pod qwen-encoder-x cannot be scheduled: no GPU"
    available = condition(found, "Available")
    assert available["message"].startswith("stage encoder has no ready pod, so requests cannot be answered: ")


def test_a_name_taken_by_a_stranger_stalls() -> None:
    foreign_owners = {ChildKey("Service", "qwen"): ForeignOwner(description="Deployment other")}
    found = status(replace(World(IDENTITY).observation(), foreign_owners=foreign_owners))
    assert holds(found)["Stalled"] == "True"
    assert holds(found)["Reconciling"] == "False"
    assert condition(found, "Stalled")["reason"] == "NameTaken"
    assert "Service qwen already exists" in condition(found, "Stalled")["message"]
    assert "Deployment other" in condition(found, "Stalled")["message"]


def test_a_name_that_an_earlier_object_still_holds_only_waits() -> None:
    foreign_owners = {ChildKey("Service", "qwen"): ForeignOwner(description="EPDDeployment qwen", terminating=True)}
    found = status(replace(World(IDENTITY).observation(), foreign_owners=foreign_owners))
    assert holds(found)["Stalled"] == "False"
    assert condition(found, "Ready")["reason"] == "WaitingForRemoval"


def test_transition_times_move_only_when_the_status_of_the_condition_does() -> None:
    world = settled()
    world.status = status(world.observation())
    assert status(world.observation(), now=LATER) == world.status
    world.children[ChildKey("Deployment", "qwen-pd")]["status"]["readyReplicas"] = 2
    found = status(world.observation(), now=LATER)
    assert condition(found, "Ready")["lastTransitionTime"] == LATER
    assert condition(found, "Available")["lastTransitionTime"] == NOW


def test_an_invalid_spec_stalls_and_what_was_known_stays() -> None:
    world = settled()
    world.status = status(world.observation())
    found = status_of_invalid("spec.pd: missing", observation=world.observation(), now=LATER)
    assert condition(found, "Stalled")["status"] == "True"
    assert condition(found, "Stalled")["message"] == "spec.pd: missing"
    assert found["stages"] == world.status["stages"]


def test_conditions_of_others_and_their_order_are_no_difference() -> None:
    found = status(settled().observation())
    foreign = {"type": "example.com/Audited", "status": "True"}
    assert is_unchanged(found, {**found, "conditions": [foreign, *reversed(found["conditions"])]})
    assert not is_unchanged(found, {**found, "conditions": found["conditions"][1:]})
    assert not is_unchanged(found, {**found, "summary": "worker 1/2"})


def test_a_refusal_that_is_worded_with_other_numbers_leaves_the_status_at_rest() -> None:
    def refused(words: str, observation: Observation) -> dict[str, Any]:
        return status(replace(observation, refused={ChildKey("Service", "qwen"): words}))

    world = settled()
    world.status = refused("denied, request 7f3a-01, used 3", world.observation())
    assert refused("denied, request 90bc-44, used 4", world.observation()) == world.status
    assert refused("another webhook says no", world.observation()) != world.status
    world.generation += 1
    assert "used 4" in condition(refused("denied, request 90bc-44, used 4", world.observation()), "Stalled")["message"]


def test_no_text_of_a_pod_can_make_the_status_too_large_for_its_schema() -> None:
    world = settled()
    world.children[ChildKey("Deployment", "qwen-pd")]["status"]["readyReplicas"] = 0
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "\x00" * 10**6}}
    container = {"name": "\U000e0001" * 10**4, "image": "\U000e0001" * 10**6, "ready": False, "state": waiting}
    pod = {
        "metadata": {"name": "qwen-pd-x", "labels": {COMPONENT_LABEL: "pd"}},
        "status": {"containerStatuses": [container]},
    }
    found = status(replace(world.observation(), pods=(pod,)))
    assert condition(found, "Ready")["reason"] == "ImagePullFailed"
    assert len(condition(found, "Ready")["message"]) <= 4096


def test_a_time_that_an_earlier_version_wrote_in_another_form_is_replaced() -> None:
    world = settled()
    world.status = status(world.observation())
    for written in world.status["conditions"]:
        written["lastTransitionTime"] = "yesterday"
    assert condition(status(world.observation(), now=LATER), "Ready")["lastTransitionTime"] == LATER


def test_crds_that_are_too_old_are_a_condition_of_their_own_and_change_no_other() -> None:
    observation = settled().observation()
    found = status(replace(observation, crd_problem="CRD x lacks spec.y"))
    assert condition(found, "CRDOutdated")["reason"] == "FieldsMissing"
    assert condition(found, "CRDOutdated")["message"] == "CRD x lacks spec.y"
    assert [c for c in found["conditions"] if c["type"] != "CRDOutdated"] == status(observation)["conditions"]
    assert not is_unchanged(status(observation), found)
    invalid = status_of_invalid("x", observation=replace(observation, crd_problem="CRD x lacks spec.y"), now=NOW)
    assert holds(invalid)["CRDOutdated"] == "True"

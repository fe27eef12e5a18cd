"""What a stage reports of the conditions of its Deployment, and of the Events of its pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from epd_operator.objects.identity import COMPONENT_LABEL
from epd_operator.objects.pod_events import PodEvent
from epd_operator.plan.observation import Admitted, ChildKey, Observation
from epd_operator.plan.planner import make_plan
from epd_operator.plan.status.builder import status_of
from support.specs import spec
from support.world import NOW, World
from unit.plan.status.test_builder import IDENTITY, settled

TIMED_OUT = {
    "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
    "message": 'ReplicaSet "qwen-pd-1a2b" has timed out progressing.',
}  # fmt: skip


def observed(*conditions: dict[str, Any], stage: str = "pd", ready: int = 1, updated: int = 3) -> Observation:
    """A settled object of which one stage has lost pods, with conditions of its Deployment."""
    world = settled()
    status = world.children[ChildKey("Deployment", f"qwen-{stage}")]["status"]
    status.update(readyReplicas=ready, updatedReplicas=updated, conditions=list(conditions))
    return world.observation()


def stage_of(observation: Observation, name: str = "pd") -> tuple[str, str]:
    plan = make_plan(spec(), observation=observation)
    stages = status_of(spec(), plan=plan, observation=observation, now=NOW)["stages"]
    found = next(stage for stage in stages if stage["name"] == name)
    return found.get("reason", ""), found.get("message", "")


def pod(*containers: dict[str, Any], name: str = "p") -> dict[str, Any]:
    conditions = [{"type": "PodScheduled", "status": "True"}]
    return {
        "metadata": {"name": name, "labels": {COMPONENT_LABEL: "pd"}},
        "status": {"conditions": conditions, "containerStatuses": list(containers)},
    }


def test_pods_that_start_for_longer_than_the_deadline_of_the_deployment_are_a_problem() -> None:
    reason, message = stage_of(replace(observed(TIMED_OUT), pods=(pod(),)))
    assert reason == "ProgressDeadlineExceeded"
    assert message.startswith('no further pod has become ready for 4200 s: ReplicaSet "qwen-pd-1a2b" has timed out')
    assert message.endswith("; pod p is starting")


def test_a_rollout_that_makes_no_progress_is_a_problem() -> None:
    assert stage_of(observed(TIMED_OUT, ready=3, updated=1))[0] == "ProgressDeadlineExceeded"


def test_a_more_exact_problem_comes_before_the_deadline() -> None:
    pulling = {"name": "pd", "ready": False, "state": {"waiting": {"reason": "ErrImagePull", "message": "gone"}}}
    assert stage_of(replace(observed(TIMED_OUT), pods=(pod(pulling),)))[0] == "ImagePullFailed"


def test_frontends_may_wait_for_workers_without_a_limit() -> None:
    assert stage_of(observed(TIMED_OUT, stage="frontend", ready=0, updated=1), "frontend")[0] == "PodsStarting"


@pytest.mark.parametrize(
    "condition",
    [
        {**TIMED_OUT, "status": "True"},
        {**TIMED_OUT, "reason": "NewReplicaSetAvailable"},
        {**TIMED_OUT, "type": "Available"},
    ],
)
def test_other_conditions_of_a_deployment_are_no_deadline(condition: dict[str, Any]) -> None:
    assert stage_of(observed(condition))[0] == "PodsStarting"


def test_a_stage_whose_pods_are_all_ready_has_no_problem_whatever_the_deadline_says() -> None:
    assert stage_of(observed(TIMED_OUT, ready=3)) == ("", "")


def test_a_refusal_of_pods_of_an_earlier_template_does_not_hide_the_state_of_the_new_pods() -> None:
    refusal = {"type": "ReplicaFailure", "status": "True", "message": "failed quota: must specify limits.cpu"}
    assert stage_of(observed(refusal, updated=2))[0] == "PodsRefused"
    assert stage_of(observed(refusal, updated=3))[0] == "PodsStarting"


def test_a_rollout_for_which_the_quota_has_no_room_says_how_it_can_continue() -> None:
    words = 'pods "qwen-pd-1" is forbidden: exceeded quota: gpus'
    refusal = {"type": "ReplicaFailure", "status": "True", "message": words}
    reason, message = stage_of(observed(refusal, updated=0))
    assert (reason, message.startswith(f"pods cannot be created: {words}: ")) == ("PodsRefused", True)
    assert "raise it, or set spec.pd.rollout to {maxSurge: 0, maxUnavailable: 1}" in message


def test_a_replica_set_that_cannot_be_created_is_reported_like_a_refused_pod() -> None:
    words = 'failed to create new replica set "qwen-pd-1a2b": exceeded quota: q'
    failed = {"type": "Progressing", "status": "False", "reason": "ReplicaSetCreateError", "message": words}
    assert stage_of(observed(failed, updated=0)) == ("PodsRefused", f"pods cannot be created: {words}")


def test_during_a_rollout_the_message_says_what_a_new_pod_waits_for() -> None:
    running = {"startedAt": "2026-01-01T00:00:00Z"}
    new = pod()
    new["status"]["initContainerStatuses"] = [{"name": "wait", "ready": False, "state": {"running": running}}]
    reason, message = stage_of(replace(observed(ready=3, updated=1), pods=(new,)))
    assert reason == "RollingOut"
    assert message == (
        "1 of 3 pods have the current template; pod p is starting: its init container wait has been running since "
        "2026-01-01T00:00:00Z"
    )


def test_an_event_of_one_pod_is_the_problem_of_its_stage() -> None:
    creating = {"name": "pd", "ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
    events = (PodEvent(pod="p", reason="FailedMount", message="no such ConfigMap"),)
    observation = replace(observed(), pods=(pod(name="other"), pod(creating)), pod_events=events)
    reason, message = stage_of(observation)
    assert reason == "VolumeNotReady"
    assert message.startswith("pod p: a volume is not ready: no such ConfigMap")


PD = ChildKey("Deployment", "qwen-pd")
IMAGE = "spec.template.spec.containers[main].image"
ARGS = {"args": ["--enforce-eager"]}


def reasons_of_change(
    before: dict[str, Any], after: dict[str, Any], *, admission: dict[str, Any] | None = None, edited: bool = False
) -> list[str]:
    """Reasons of stage pd when a change is applied, and before Kubernetes has observed it."""
    world = World(IDENTITY)
    first, second = (spec(pd={"pool": "gb200", "replicas": 3, **stage}) for stage in (before, after))
    for _ in range(20):
        world.apply(make_plan(first, observation=world.observation()))
        world.step()
    if admission is not None or edited:
        world.children[PD]["spec"]["template"]["spec"]["containers"][0]["image"] = "mirror.example.com/worker:1"
    stale, admitted = world.children[PD]["status"], {}
    if admission is not None:
        record = Admitted(uid=world.children[PD]["metadata"]["uid"], plan="p", values="v", fields=(IMAGE,))
        admitted = {PD: replace(record, **admission)}
    found = []
    for _ in range(2):
        observation = replace(world.observation(), admitted=admitted)
        plan = make_plan(second, observation=observation)
        world.status = status_of(second, plan=plan, observation=observation, now=NOW)
        found.append(next(s for s in world.status["stages"] if s["name"] == "pd").get("reason", ""))
        world.apply(plan)
        world.children[PD]["status"] = dict(stale)
    return found


@pytest.mark.parametrize(
    ("before", "after", "reasons"),
    [
        ({}, {"replicas": 5}, ["PodsStarting", "PodsStarting"]),
        ({}, {"replicas": 1}, ["ScalingDown", "ScalingDown"]),
        ({}, {"rollout": {"maxSurge": 2}}, ["", "PodsStarting"]),
        ({}, ARGS, ["RollingOut", "RollingOut"]),
        (ARGS, {"replicas": 5}, ["RollingOut", "RollingOut"]),
        ({"env": [{"name": "DYN_LOG", "value": "debug"}]}, {"replicas": 5}, ["RollingOut", "RollingOut"]),
    ],
    ids=["up", "down", "limits", "arguments", "arguments removed and up", "variable removed and up"],
)
def test_only_a_change_of_the_template_is_a_rollout(
    before: dict[str, Any], after: dict[str, Any], reasons: list[str]
) -> None:
    assert reasons_of_change(before, after) == reasons


def test_fields_that_admission_sets_make_no_rollout_of_a_change_of_replicas() -> None:
    assert reasons_of_change({}, {"replicas": 5}, admission={})[0] == "PodsStarting"
    assert reasons_of_change({}, {"replicas": 5}, admission={"uid": "of an earlier Deployment"})[0] == "RollingOut"


def test_the_undoing_of_an_edit_of_the_template_is_a_rollout() -> None:
    assert reasons_of_change({}, {}, edited=True)[0] == "RollingOut"


@pytest.mark.parametrize("reported", [None, "RollingOut", 5])
def test_a_status_that_others_wrote_never_raises_and_the_stage_is_not_ready(reported: Any) -> None:
    world = settled()
    world.children[PD]["metadata"]["generation"] += 1
    world.status = {"stages": [{"name": "pd", "reason": reported}]}
    reason, _ = stage_of(world.observation())
    assert reason == ("RollingOut" if reported == "RollingOut" else "PodsStarting")

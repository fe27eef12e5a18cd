"""The limits of rolling updates, and rollouts that wait for devices of their own old pods."""

from __future__ import annotations

from typing import Any

import pytest

from epd_operator.api.v1alpha1.rollout import Rollout
from epd_operator.objects.identity import Identity
from epd_operator.plan.observation import ChildKey, Observation
from epd_operator.plan.planner import make_plan
from epd_operator.plan.rollout.limits import blocked_pod, limits
from support.specs import TOPOLOGIES, spec

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
FULL = "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node affinity/selector."
IN_PLACE = {"maxSurge": 0, "maxUnavailable": 1}


def rollout(surge: int | str = "25%", unavailable: int | str = "25%") -> Rollout:
    return Rollout(max_surge=surge, max_unavailable=unavailable)


def pod(name: str, *conditions: dict[str, str], template: str = "old", **metadata: Any) -> dict[str, Any]:
    created = "2026-01-01T00:00:00Z" if template == "old" else "2026-01-02T00:00:00Z"
    labels = {"pod-template-hash": template}
    return {
        "metadata": {"name": name, "labels": labels, "creationTimestamp": created, **metadata},
        "status": {"conditions": list(conditions)},
    }


def ready(name: str, **changes: Any) -> dict[str, Any]:
    return pod(name, {"type": "Ready", "status": "True"}, **changes)


def unscheduled(name: str, message: str = FULL, *, template: str = "new") -> dict[str, Any]:
    return pod(name, {"type": "PodScheduled", "status": "False", "message": message}, template=template)


@pytest.mark.parametrize(
    ("chosen", "replicas", "expected"),
    [
        (rollout(), 1, (1, 0)),
        (rollout(), 4, (1, 1)),
        (rollout(), 5, (2, 1)),
        (rollout(0, 1), 1, (0, 1)),
        (rollout(0), 3, (0, 1)),
        (rollout(0), 8, (0, 2)),
        (rollout("0%", "10%"), 5, (0, 1)),
        (rollout(2, "100%"), 3, (2, 3)),
    ],
)
def test_limits_are_rounded_as_by_the_deployment_controller(
    chosen: Rollout, replicas: int, expected: tuple[int, int]
) -> None:
    assert limits(chosen, replicas=replicas) == expected


def test_a_new_pod_without_a_gpu_blocks_the_rollout_of_a_stage_that_keeps_its_old_pods() -> None:
    pods = [ready("a"), ready("b"), unscheduled("c")]
    assert blocked_pod(pods, rollout=rollout(), replicas=2) == ("c", FULL)


@pytest.mark.parametrize(
    "pods",
    [
        [ready("a"), ready("b", deletionTimestamp="2026-01-02T00:00:00Z"), unscheduled("c")],
        [ready("a"), pod("b", template="new"), unscheduled("c")],
        [ready("a"), ready("b"), unscheduled("c", "0/2 nodes are available: 2 node(s) had untolerated taint")],
        [ready("a"), ready("b"), unscheduled("c", template="old")],
        [ready("a"), ready("b")],
    ],
    ids=["an old pod ends", "a new pod starts", "the cause is another", "the pod is not new", "nothing waits"],
)
def test_a_rollout_is_not_blocked_while_it_can_continue_or_other_things_prevent_it(pods: list[dict[str, Any]]) -> None:
    assert blocked_pod(pods, rollout=rollout(), replicas=2) is None


def test_a_rollout_that_removes_old_pods_first_is_not_blocked_by_them() -> None:
    pods = [ready("a"), unscheduled("c")]
    assert blocked_pod(pods, rollout=rollout(0, 1), replicas=2) is None


def test_a_rollout_that_may_still_remove_an_old_pod_is_not_blocked() -> None:
    pods = [*(ready(f"a{n}") for n in range(4)), unscheduled("c")]
    assert blocked_pod(pods, rollout=rollout(), replicas=4) is None
    assert blocked_pod(pods[1:], rollout=rollout(), replicas=4) == ("c", FULL)


@pytest.mark.parametrize("nonsense", [None, 5, "x", [], {"conditions": 3}, {"conditions": [None, 1]}])
def test_nonsense_in_the_status_of_a_pod_never_raises(nonsense: Any) -> None:
    odd = {"metadata": {"name": "x", "labels": nonsense}, "status": nonsense}
    assert blocked_pod([odd, ready("a")], rollout=rollout(), replicas=1) is None


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_rollout_of_every_stage_becomes_the_strategy_of_its_deployment(topology: str) -> None:
    stages = {"Aggregated": ["worker"], "CoLocated": ["group"], "Disaggregated": ["encoder", "pd"]}[topology]
    ready_stage = {"metadata": {"generation": 1}, "spec": {"replicas": 1}, "status": {"readyReplicas": 1}}
    children = {ChildKey("Deployment", f"qwen-{stages[0]}"): ready_stage}
    observation = Observation(identity=IDENTITY, generation=1, children=children)
    chosen = {name: {"pool": "gb200", "rollout": {"maxSurge": 0, "maxUnavailable": 1}} for name in stages}
    plan = make_plan(spec(topology, frontend={"rollout": {"maxSurge": "50%"}}, **chosen), observation=observation)
    found = {
        child["metadata"]["name"].removeprefix("qwen-"): child["spec"]["strategy"]
        for child in plan.children
        if child["kind"] == "Deployment"
    }
    in_place = {"type": "RollingUpdate", "rollingUpdate": IN_PLACE}
    frontend = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": "25%"}}
    assert found == {"frontend": frontend, **dict.fromkeys(stages, in_place)}

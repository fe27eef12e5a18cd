"""Which worker is evicted because it answers wrongly."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import COMPONENT_LABEL, INITIAL_REVISION, REVISION_LABEL, Identity
from epd_operator.plan.observation import Findings, Observation
from epd_operator.plan.planner import make_plan
from support.specs import spec
from support.world import World

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
FINDINGS = Findings(revision=INITIAL_REVISION, right=("a", "b"), wrong={"c": "got Rome"})
CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def wanted(*, replaced: bool = True, **changes: Any) -> EPDDeploymentSpec:
    request = {"name": "capital", "messages": [{"text": "France?"}], "expect": {"text": {"contains": "Paris"}}}
    return spec(verification={"requests": [request], "replaceWrongWorkers": replaced}, **changes)


def pod(name: str, *, ready: bool = True, created: datetime = CREATED, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "serving",
            "uid": f"uid-{name}",
            "labels": {COMPONENT_LABEL: "pd", REVISION_LABEL: INITIAL_REVISION},
            "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            **metadata,
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def observed(*pods: dict[str, Any], findings: Findings | None = FINDINGS, seconds: float = 3600) -> Observation:
    world = World(IDENTITY)
    for _ in range(20):
        world.apply(make_plan(wanted(), observation=world.observation()))
        world.step()
    now = CREATED + timedelta(seconds=seconds)
    return replace(world.observation(), findings=findings, pods=pods, at=now)


def evicted(observation: Observation, of: EPDDeploymentSpec | None = None) -> list[str]:
    plan = make_plan(of or wanted(), observation=observation)
    return [eviction["metadata"]["name"] for eviction in plan.evictions]


THREE = (pod("a"), pod("b"), pod("c"))


def test_a_worker_that_answers_wrongly_is_evicted_if_it_is_the_same_pod() -> None:
    (eviction,) = make_plan(wanted(), observation=observed(*THREE)).evictions
    assert eviction == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "c", "namespace": "serving"},
        "deleteOptions": {"preconditions": {"uid": "uid-c"}},
    }


def test_only_one_of_two_is_evicted() -> None:
    findings = replace(FINDINGS, right=("a",), wrong={"b": "got Rome", "c": "got Rome"})
    assert evicted(observed(*THREE, findings=findings)) == ["b"]


def test_no_worker_is_evicted_unless_the_spec_says_so_or_while_rollouts_are_paused() -> None:
    assert evicted(observed(*THREE), wanted(replaced=False)) == []
    assert evicted(observed(*THREE), wanted(rollout={"paused": True})) == []


@pytest.mark.parametrize(
    "pods",
    [
        (pod("c"), pod("d"), pod("e")),
        (pod("a"), pod("b", ready=False), pod("c")),
        (pod("a"), pod("c")),
        (*THREE, pod("d", ready=False)),
        (*THREE, pod("d", deletionTimestamp="2026-01-01T00:00:00Z")),
        (pod("a"), pod("b"), pod("c", ready=False)),
        (pod("a", created=CREATED + timedelta(seconds=3000)), pod("b"), pod("c")),
        (pod("a", creationTimestamp="nonsense"), pod("b"), pod("c")),
    ],
    ids=["none right", "not ready", "missing", "starting", "terminating", "wrong one not ready", "a new pod", "no age"],
)
def test_a_stage_that_is_not_whole_or_has_no_right_answer_keeps_its_pods(pods: tuple[dict[str, Any], ...]) -> None:
    assert evicted(observed(*pods)) == []


@pytest.mark.parametrize("findings", [None, replace(FINDINGS, revision="7f3a"), replace(FINDINGS, wrong={"gone": "x"})])
def test_findings_of_other_pods_evict_none(findings: Findings | None) -> None:
    assert evicted(observed(*THREE, findings=findings)) == []


def test_no_worker_is_evicted_during_a_rollout() -> None:
    other = wanted(runtime={"image": "example.test/epd:2"})
    assert evicted(observed(*THREE), other) == []

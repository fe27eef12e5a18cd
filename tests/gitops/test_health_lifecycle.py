"""Argo CD, Flux and kstatus on the real status of each stage in an object's life, and that they agree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pytest

from epd_operator.objects.kinds import EPD_DEPLOYMENT
from epd_operator.plan.status.reasons import Reason
from support import life_stages as life
from support.apiserver import ApiServer
from support.gitops import Checker
from support.operated import new_world


class Health(StrEnum):
    """The state that all tools should see, each in its words."""

    DONE = "done"
    AT_WORK = "at work"
    FAILED = "failed"


ARGO_CD = {"Healthy": Health.DONE, "Progressing": Health.AT_WORK, "Degraded": Health.FAILED}
KSTATUS = {"Current": Health.DONE, "InProgress": Health.AT_WORK, "Terminating": Health.AT_WORK, "Failed": Health.FAILED}


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What an object in one stage of its life should look like.

    Attributes:
        reach: brings a world's object there.
        health: what the tools should see.
        reason: of the condition Ready; empty where the tools go by something else.
        available: whether requests are answered.
        kstatus: what kstatus sees, where it differs: it knows no reasons.
        live: whether it needs the real controllers.
    """

    reach: life.Stage
    health: Health
    reason: str = ""
    available: bool = False
    kstatus: Health | None = None
    live: bool = True


def in_vain(reason: str) -> Expected:
    """Pods with a problem that Kubernetes retries, but which only a person can solve."""
    return Expected(reach=life.troubled(reason), health=Health.FAILED, reason=reason, kstatus=Health.AT_WORK)


def passing(reason: str) -> Expected:
    """Pods with a problem that may pass."""
    return Expected(reach=life.troubled(reason), health=Health.AT_WORK, reason=reason)


STAGES = {
    "not yet seen": Expected(reach=life.not_yet_seen, health=Health.AT_WORK, live=False),
    "starting": Expected(reach=life.starting, health=Health.AT_WORK, reason="PodsStarting"),
    "waiting for the encoder": Expected(
        reach=life.waiting_for_the_encoder, health=Health.AT_WORK, reason="PodsStarting"
    ),
    "ready": Expected(reach=life.ready, health=Health.DONE, reason="AllStagesReady", available=True),
    "changed and not yet seen": Expected(reach=life.stale, health=Health.AT_WORK, available=True),
    "rolling out": Expected(reach=life.rolling_out, health=Health.AT_WORK, reason="RollingOut", available=True),
    "rolled out": Expected(reach=life.rolled_out, health=Health.DONE, reason="AllStagesReady", available=True),
    "rolling out in vain": Expected(
        reach=life.rolling_out_to_an_image_that_is_not_there,
        health=Health.FAILED,
        reason="ImagePullFailed",
        available=True,
        kstatus=Health.AT_WORK,
    ),
    "scaling up": Expected(reach=life.scaling_up, health=Health.AT_WORK, reason="PodsStarting", available=True),
    "scaling down": Expected(
        reach=life.scaling_down, health=Health.AT_WORK, reason="ScalingDown", available=True, live=False
    ),
    "all workers lost": Expected(reach=life.all_workers_lost, health=Health.AT_WORK, reason="PodsStarting"),
    "image pull failed": in_vain("ImagePullFailed"),
    "crash looping": in_vain("CrashLooping"),
    "container config invalid": in_vain("ContainerConfigInvalid"),
    "pods refused": Expected(
        reach=life.refused_by_a_quota, health=Health.FAILED, reason="PodsRefused", kstatus=Health.AT_WORK
    ),
    "unschedulable": passing("Unschedulable"),
    "container restarted": passing("ContainerRestarted"),
    "node lost": passing("NodeLost"),
    "pods failed": passing("PodsFailed"),
    "name taken": Expected(reach=life.name_taken, health=Health.FAILED, reason="NameTaken", live=False),
    "child refused": Expected(reach=life.child_refused, health=Health.FAILED, reason="ChildRefused", live=False),
    "spec invalid": Expected(reach=life.spec_invalid, health=Health.FAILED, reason="SpecInvalid", live=False),
    "waiting for removal": Expected(
        reach=life.waiting_for_removal, health=Health.AT_WORK, reason="WaitingForRemoval", live=False
    ),
    "being deleted": Expected(reach=life.being_deleted, health=Health.AT_WORK, available=True),
}

NEVER_OF_READY = {Reason.REQUESTS_ANSWERED, Reason.NO_READY_PODS, Reason.SETTLED, Reason.WAITING_FOR_ENCODER}
"""Reasons of other conditions, and of a stage that waits for another, whose reason is told instead."""


@pytest.mark.parametrize("expected", STAGES.values(), ids=STAGES.keys())
async def test_the_tools_agree_on_each_stage_of_life(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, checker: Checker, expected: Expected
) -> None:
    server: ApiServer = request.getfixturevalue("controllers" if expected.live else "api_server")
    async with new_world(server, monkeypatch) as world:
        await expected.reach(world)
        thing = await world.find(EPD_DEPLOYMENT, "qwen")
    said = checker.health(thing)
    assert {verdict.error for verdict in (said.argocd, said.flux, said.kstatus)} == {""}
    assert ARGO_CD[said.argocd.status] is expected.health
    assert KSTATUS[said.flux.status] is expected.health
    assert KSTATUS[said.kstatus.status] is (expected.kstatus or expected.health)

    conditions = {c["type"]: c for c in thing["status"].get("conditions", ())}
    assert (conditions.get("Available", {}).get("status") == "True") is expected.available
    if expected.reason:
        assert conditions["Ready"]["reason"] == expected.reason
        assert f"{expected.reason}: {conditions['Ready']['message']}" in said.argocd.message
        answered = expected.available and expected.health is Health.AT_WORK
        assert ("requests are answered" in said.argocd.message) is answered


def test_every_reason_of_ready_is_reached() -> None:
    reached = {expected.reason for expected in STAGES.values() if expected.reason}
    assert reached == set(Reason) - NEVER_OF_READY

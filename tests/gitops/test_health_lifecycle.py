"""Argo CD, Flux and kstatus agree on the real status in each phase of an object's life cycle."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pytest

from epd_operator.objects.kinds import EPD_DEPLOYMENT
from epd_operator.plan.status.reasons import Reason
from support import life_cycle as life
from support.apiserver import ApiServer
from support.gitops import Checker
from support.operated import new_world


class Health(StrEnum):
    """The state that all tools should report, each by its own name."""

    DONE = "done"
    IN_PROGRESS = "in progress"
    FAILED = "failed"


ARGO_CD = {"Healthy": Health.DONE, "Progressing": Health.IN_PROGRESS, "Degraded": Health.FAILED}
KSTATUS = {
    "Current": Health.DONE,
    "InProgress": Health.IN_PROGRESS,
    "Terminating": Health.IN_PROGRESS,
    "Failed": Health.FAILED,
}


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The expected state of an object in one phase of its life cycle.

    Attributes:
        reach: brings the object of a world into the phase.
        health: what the tools should report.
        reason: of the condition Ready; empty where the tools use something else.
        available: whether requests are answered.
        kstatus: what kstatus reports, if it differs: it does not use reasons.
        live: whether it needs the real controllers.
    """

    reach: life.Phase
    health: Health
    reason: str = ""
    available: bool = False
    kstatus: Health | None = None
    live: bool = True

    @property
    def health_if_available(self) -> Health:
        """What the variants of the examples should report: an object is done as soon as requests are answered.

        But not before the operator has seen the spec (then Ready has no reason here), and not on a failure.
        """
        is_seen = bool(self.reason)
        return Health.DONE if self.available and is_seen and self.health is Health.IN_PROGRESS else self.health


def needs_user(reason: str) -> Expected:
    """Pods with a problem that Kubernetes retries, but that only a user can fix."""
    return Expected(reach=life.with_problem(reason), health=Health.FAILED, reason=reason, kstatus=Health.IN_PROGRESS)


def may_recover(reason: str) -> Expected:
    """Pods with a problem that may disappear without a change by a user."""
    return Expected(reach=life.with_problem(reason), health=Health.IN_PROGRESS, reason=reason)


def of_revision(reach: life.Phase, *, reason: str) -> Expected:
    """A step between two revisions: one of them answers requests."""
    return Expected(reach=reach, health=Health.IN_PROGRESS, reason=reason, available=True, live=False)


NEED_USER = {"ImagePullFailed", "CrashLooping", "ContainerConfigInvalid", "VolumeNotReady"}
"""Problems of pods that Kubernetes retries, mostly without success. All others may end without a change."""

PHASES = {
    "not yet seen": Expected(reach=life.not_yet_seen, health=Health.IN_PROGRESS, live=False),
    "starting": Expected(reach=life.starting, health=Health.IN_PROGRESS, reason="PodsStarting"),
    "waiting for the encoder": Expected(
        reach=life.waiting_for_the_encoder, health=Health.IN_PROGRESS, reason="PodsStarting"
    ),
    "ready": Expected(reach=life.ready, health=Health.DONE, reason="AllStagesReady", available=True),
    "changed and not yet seen": Expected(reach=life.stale, health=Health.IN_PROGRESS, available=True),
    "rolling out": Expected(reach=life.rolling_out, health=Health.IN_PROGRESS, reason="RollingOut", available=True),
    "rolled out": Expected(reach=life.rolled_out, health=Health.DONE, reason="AllStagesReady", available=True),
    "rolling out in vain": Expected(
        reach=life.rolling_out_in_vain,
        health=Health.FAILED,
        reason="CrashLooping",
        available=True,
        kstatus=Health.IN_PROGRESS,
    ),
    "changed to a missing image": Expected(
        reach=life.changed_to_a_missing_image,
        health=Health.FAILED,
        reason="ImagePullFailed",
        available=True,
        kstatus=Health.IN_PROGRESS,
    ),
    "revision starting": of_revision(life.revision_starting, reason="RevisionStarting"),
    "revision verifying": of_revision(life.revision_verifying, reason="RevisionVerifying"),
    "revision without an answer": Expected(
        reach=life.verification_failed,
        health=Health.FAILED,
        reason="VerificationFailed",
        available=True,
        kstatus=Health.IN_PROGRESS,
        live=False,
    ),
    "wrong answers": Expected(
        reach=life.wrong_answers,
        health=Health.FAILED,
        reason="WrongAnswers",
        available=True,
        kstatus=Health.IN_PROGRESS,
        live=False,
    ),
    "revision sharing": of_revision(life.revision_sharing, reason="RevisionSharing"),
    "revision returned": Expected(
        reach=life.revision_returned,
        health=Health.FAILED,
        reason="RevisionReturned",
        available=True,
        kstatus=Health.IN_PROGRESS,
        live=False,
    ),
    "revision removing": of_revision(life.revision_removing, reason="RevisionRemoving"),
    "rollout paused": of_revision(life.rollout_paused, reason="RolloutPaused"),
    "rollout blocked": Expected(
        reach=life.rollout_blocked, health=Health.IN_PROGRESS, reason="RolloutBlocked", available=True
    ),
    "scaling up": Expected(reach=life.scaling_up, health=Health.IN_PROGRESS, reason="PodsStarting", available=True),
    "scaling down": Expected(
        reach=life.scaling_down, health=Health.IN_PROGRESS, reason="ScalingDown", available=True, live=False
    ),
    "all workers lost": Expected(reach=life.all_workers_lost, health=Health.IN_PROGRESS, reason="PodsStarting"),
    "pods refused": Expected(
        reach=life.refused_by_a_quota, health=Health.FAILED, reason="PodsRefused", kstatus=Health.IN_PROGRESS
    ),
    **{reason: needs_user(reason) if reason in NEED_USER else may_recover(reason) for reason in life.POD_PROBLEMS},
    "progress deadline exceeded": Expected(
        reach=life.progress_deadline_exceeded,
        health=Health.FAILED,
        reason="ProgressDeadlineExceeded",
        kstatus=Health.IN_PROGRESS,
        live=False,
    ),
    "name taken": Expected(reach=life.name_taken, health=Health.FAILED, reason="NameTaken", live=False),
    "child refused": Expected(reach=life.child_refused, health=Health.FAILED, reason="ChildRefused", live=False),
    "spec invalid": Expected(reach=life.spec_invalid, health=Health.FAILED, reason="SpecInvalid", live=False),
    "waiting for removal": Expected(
        reach=life.waiting_for_removal, health=Health.IN_PROGRESS, reason="WaitingForRemoval", live=False
    ),
    "being deleted": Expected(reach=life.being_deleted, health=Health.IN_PROGRESS, available=True),
}

GATES_OF_A_WEBHOOK = Reason.READINESS_GATES_NOT_READY
"""Not reached here: only a webhook can give gates to a pod. Health checks count it as in progress."""
NEVER_OF_READY = {
    Reason.REQUESTS_ANSWERED,
    Reason.NO_READY_PODS,
    Reason.SETTLED,
    Reason.WAITING_FOR_ENCODER,
    Reason.FIELDS_MISSING,
    Reason.NO_MATCHING_NODES,
    Reason.ARCHITECTURE_DIFFERS,
    Reason.DEVICES_MISSING,
    Reason.TAINTS_NOT_TOLERATED,
    Reason.RUNTIME_CLASS_MISSING,
}
"""Reasons of other conditions, and of a stage that waits for another, whose reason is reported instead."""


@pytest.mark.parametrize("expected", PHASES.values(), ids=PHASES.keys())
async def test_the_tools_agree_on_each_phase_of_the_life_cycle(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    checker: Checker,
    checker_if_available: Checker,
    expected: Expected,
) -> None:
    server: ApiServer = request.getfixturevalue("controllers" if expected.live else "api_server")
    async with new_world(server, monkeypatch) as world:
        await expected.reach(world)
        thing = await world.find(EPD_DEPLOYMENT, "qwen")
    result = checker.health(thing)
    assert {verdict.error for verdict in (result.argocd, result.flux, result.kstatus)} == {""}
    assert ARGO_CD[result.argocd.status] is expected.health
    assert KSTATUS[result.flux.status] is expected.health
    assert KSTATUS[result.kstatus.status] is (expected.kstatus or expected.health)

    variant = checker_if_available.health(thing)
    assert {variant.argocd.error, variant.flux.error} == {""}
    assert ARGO_CD[variant.argocd.status] is expected.health_if_available
    assert KSTATUS[variant.flux.status] is expected.health_if_available

    conditions = {c["type"]: c for c in thing["status"].get("conditions", ())}
    assert (conditions.get("Available", {}).get("status") == "True") is expected.available
    if expected.reason:
        assert conditions["Ready"]["reason"] == expected.reason
        assert f"{expected.reason}: {conditions['Ready']['message']}" in result.argocd.message
        answered = expected.available and expected.health is Health.IN_PROGRESS
        assert ("requests are answered" in result.argocd.message) is answered


def test_every_reason_of_ready_is_reached() -> None:
    reached = {expected.reason for expected in PHASES.values() if expected.reason}
    assert reached == set(Reason) - NEVER_OF_READY - {GATES_OF_A_WEBHOOK}

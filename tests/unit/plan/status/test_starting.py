"""What a pod waits for: from its status, and from Events where only they have the cause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.objects.pod_events import PodEvent
from epd_operator.plan.status.pods import problem_of
from epd_operator.plan.status.problem import Problem
from epd_operator.plan.status.reasons import Reason
from support.life_cycle import POD_EVENTS
from unit.objects.test_pods import VALUES

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEDULED = {"type": "PodScheduled", "status": "True"}
CREATING = {"name": "main", "ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
RUNNING = {"name": "main", "ready": True, "started": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
MOUNT = POD_EVENTS["VolumeNotReady"][1]


def pod(*containers: Any, conditions: Any = (SCHEDULED,), init: Any = (), **spec: Any) -> dict[str, Any]:
    status = {
        "conditions": list(conditions),
        "containerStatuses": list(containers),
        "initContainerStatuses": list(init),
    }
    return {"metadata": {"name": "p"}, "spec": spec, "status": status}


def event(reason: str, message: str = "", *, at: float = 0) -> PodEvent:
    return PodEvent(pod="p", reason=reason, message=message, last=START + timedelta(seconds=at))


def problem(described: dict[str, Any], *events: PodEvent, own: Any = None) -> Problem:
    found = problem_of(described, events=events, own=own)
    assert found is not None
    return found


def test_a_missing_configmap_of_a_volume_is_named_in_the_words_of_the_kubelet() -> None:
    found = problem(pod(CREATING), event("Scheduled"), event("FailedMount", MOUNT, at=5))
    assert found == Problem(
        Reason.VOLUME_NOT_READY,
        f"pod p: a volume is not ready: {MOUNT} (create the object that is missing, or correct the volume; Kubernetes "
        "tries again automatically)",
    )


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("FailedAttachVolume", Reason.VOLUME_NOT_READY),
        ("FailedMapVolume", Reason.VOLUME_NOT_READY),
        ("FailedCreatePodSandBox", Reason.SANDBOX_FAILED),
        ("NetworkNotReady", Reason.SANDBOX_FAILED),
        ("FailedPrepareDynamicResources", Reason.SANDBOX_FAILED),
        ("Scheduled", Reason.PODS_STARTING),
        ("Unhealthy", Reason.PODS_STARTING),
        ("FailedScheduling", Reason.PODS_STARTING),
    ],
)
def test_events_of_a_pod_that_waits_give_the_reason(reason: str, expected: Reason) -> None:
    found = problem(pod(CREATING), event(reason, "the words of Kubernetes"))
    assert found.reason is expected
    assert ("the words of Kubernetes" in found.message) is (expected is not Reason.PODS_STARTING)


@pytest.mark.parametrize("progress", ["Pulling", "Pulled", "Created", "Started"])
def test_a_volume_that_was_late_is_no_cause_any_more_when_the_kubelet_has_continued(progress: str) -> None:
    found = problem(pod(CREATING), event("FailedMount", MOUNT), event(progress, 'Pulling image "i"', at=3))
    assert found.reason is Reason.PODS_STARTING


def test_a_sandbox_that_fails_after_an_image_was_pulled_is_the_cause() -> None:
    found = problem(pod(CREATING), event("Pulled"), event("FailedCreatePodSandBox", "no network", at=3))
    assert found.reason is Reason.SANDBOX_FAILED


def test_the_message_is_the_same_at_each_attempt_so_that_status_rests() -> None:
    summary = "Unable to attach or mount volumes: unmounted volumes=[company-ca]: context deadline exceeded after 12.5s"
    first = problem(pod(CREATING), event("FailedMount", summary), event("FailedMount", MOUNT, at=5))
    second = problem(pod(CREATING), event("FailedMount", MOUNT, at=5), event("FailedMount", summary, at=9))
    assert first == second
    assert "Unable" not in first.message
    assert "after …" in problem(pod(CREATING), event("FailedMount", summary)).message


def test_two_missing_volumes_are_both_named_in_any_order_of_the_attempts() -> None:
    one, two = event("FailedMount", "b is missing"), event("FailedMount", "a is missing", at=60)
    again = event("FailedMount", "b is missing", at=122)
    assert "a is missing; b is missing (" in problem(pod(CREATING), one, two).message
    assert problem(pod(CREATING), one, two) == problem(pod(CREATING), two, again)
    repaired = problem(pod(CREATING), one, event("FailedMount", "a is missing", at=600))
    assert "b is missing" not in repaired.message


@pytest.mark.parametrize(
    "identifier",
    ["a" * 64, "0f8fad5b-d9cb-469f-a165-70867728950e", "3s", "250ms"],
)  # fmt: skip
def test_identifiers_that_differ_at_each_attempt_are_left_out(identifier: str) -> None:
    text = f'failed to setup network for sandbox "{identifier}": plugin type="bridge" failed'
    message = problem(pod(CREATING), event("FailedCreatePodSandBox", text)).message
    assert 'sandbox "…": plugin' in message


def test_the_name_of_a_provisioned_volume_is_kept() -> None:
    text = 'Multi-Attach error for volume "pvc-0f8fad5b-d9cb-469f-a165-70867728950e" Volume is already used by pod(s) a'
    assert text in problem(pod(CREATING), event("FailedAttachVolume", text)).message


def test_a_scheduling_gate_is_named() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "Scheduling is blocked"}
    found = problem(pod(conditions=[gated], schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]))
    assert found.reason is Reason.SCHEDULING_GATED
    assert "waits for its scheduling gates kueue.x-k8s.io/admission: Scheduling is blocked" in found.message


def test_readiness_gates_that_are_not_met_are_named() -> None:
    conditions = [{"type": "ContainersReady", "status": "True"}, {"type": "example.com/met", "status": "True"}]
    gates = [{"conditionType": "example.com/lb"}, {"conditionType": "example.com/met"}]
    found = problem(pod(RUNNING, conditions=conditions, readinessGates=gates))
    assert found.reason is Reason.READINESS_GATES_NOT_READY
    assert "readiness gates are not: example.com/lb;" in found.message


def test_an_added_container_that_alone_is_not_ready_is_named() -> None:
    proxy = {"name": "istio-proxy", "ready": False, "started": True, "state": {"running": {}}}
    found = problem(pod(RUNNING, proxy), own=["main"])
    assert found.reason is Reason.CONTAINER_NOT_READY
    assert "not ready: istio-proxy;" in found.message
    loading = {**RUNNING, "ready": False, "started": False}
    assert problem(pod(loading, proxy), own=["main"]).reason is Reason.PODS_STARTING
    assert problem(pod(RUNNING, proxy)).reason is Reason.PODS_STARTING


def test_a_native_sidecar_that_is_not_ready_is_named() -> None:
    sidecar = {"name": "proxy", "ready": False, "started": True, "state": {"running": {}}}
    declared = [{"name": "proxy", "restartPolicy": "Always"}]
    found = problem(pod(RUNNING, init=[sidecar], initContainers=declared), own=["main"])
    assert found.reason is Reason.CONTAINER_NOT_READY
    assert "not ready: proxy;" in found.message


INIT = {"name": "wait", "ready": False, "started": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
INITIALIZING = {**CREATING, "state": {"waiting": {"reason": "PodInitializing"}}}


@pytest.mark.parametrize(
    ("described", "events", "wait"),
    [
        (pod(INITIALIZING, init=[INIT]), [], "its init container wait has been running since 2026-01-01T00:00:00Z"),
        (
            pod(
                INITIALIZING,
                init=[{**INIT, "started": False}],
                initContainers=[{"name": "wait", "restartPolicy": "Always"}],
            ),
            [],
            "the startup probe of its sidecar wait has not succeeded yet",
        ),
        (pod(CREATING), [event("Pulling", 'Pulling image "i:1"')], 'Pulling image "i:1"'),
        (
            pod(CREATING, conditions=[SCHEDULED, {"type": "PodReadyToStartContainers", "status": "False"}]),
            [],
            "its volumes or its network are not ready yet",
        ),
        (
            pod(conditions=[], schedulerName="volcano"),
            [],
            "the scheduler volcano has not tried to place it; check that it runs",
        ),
        (pod(conditions=[], schedulerName="default-scheduler"), [], ""),
        (pod(CREATING), [], ""),
    ],
)
def test_a_pod_that_starts_names_what_it_waits_for(described: Any, events: list[PodEvent], wait: str) -> None:
    message = "pod p is starting" + (f": {wait}" if wait else "")
    assert problem(described, *events) == Problem(Reason.PODS_STARTING, message)


FIELDS = ("name", "ready", "started", "state", "lastState", "type", "status", "reason", "message", "restartPolicy")
PART = st.dictionaries(
    st.sampled_from(FIELDS),
    VALUES | st.dictionaries(st.sampled_from(("waiting", "running", "terminated", "reason", "message")), VALUES),
    max_size=4,
)
PARTS = VALUES | st.lists(PART, max_size=3)
STATUS = st.dictionaries(
    st.sampled_from(("phase", "conditions", "containerStatuses", "initContainerStatuses", "reason")), PARTS
)
SPEC = st.dictionaries(
    st.sampled_from(("initContainers", "containers", "readinessGates", "schedulingGates", "schedulerName")), PARTS
)


@given(VALUES | STATUS, VALUES | SPEC, st.sampled_from([None, ("main",), ()]))
def test_a_pod_with_any_status_and_spec_gives_a_problem_or_none(status: Any, spec: Any, own: Any) -> None:
    described = {"metadata": {"name": "p"}, "status": status, "spec": spec}
    found = problem_of(described, events=[event("FailedMount", MOUNT)], own=own)
    assert found is None or found.message

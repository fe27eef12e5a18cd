"""Why a pod is not ready."""

from __future__ import annotations

from typing import Any

from epd_operator.objects.text import MAX_TEXT
from epd_operator.plan.status.pods import problem_of
from epd_operator.plan.status.problem import Problem, most_urgent
from epd_operator.plan.status.reasons import Reason, Section


def pod(*containers: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "status": {"containerStatuses": list(containers), **status}}


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    return {
        "name": "main",
        "ready": False,
        "image": "i:1",
        "state": {"waiting": {"reason": reason, "message": message}},
        **more,
    }


def problem(described: dict[str, Any]) -> Problem:
    found = problem_of(described)
    assert found is not None
    return found


def test_a_ready_pod_has_no_problem() -> None:
    assert problem_of(pod(conditions=[{"type": "Ready", "status": "True"}])) is None


def test_a_leaving_pod_has_no_problem() -> None:
    leaving = pod(waiting("CrashLoopBackOff"))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert problem_of(leaving) is None


def test_the_schedulers_words_are_passed_on() -> None:
    found = problem(pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/3 nodes: no GPU"}]))
    assert found == Problem(Reason.UNSCHEDULABLE, "pod p cannot be scheduled: 0/3 nodes: no GPU")


def test_both_texts_of_a_failing_image_pull_give_the_same_message_so_that_status_rests() -> None:
    first = problem(pod(waiting("ErrImagePull", "no such host")))
    second = problem(pod(waiting("ImagePullBackOff", 'Back-off pulling image "i:1": ErrImagePull: no such host')))
    assert first == second
    assert first.reason is Reason.IMAGE_PULL_FAILED
    assert "i:1" in first.message


def test_a_crash_loop_tells_how_the_process_ended() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "pd was killed"}}
    found = problem(pod(waiting("CrashLoopBackOff", "back-off 10s", lastState=ended)))
    assert found.reason is Reason.CRASH_LOOPING
    assert "exit code 137 (OOMKilled): pd was killed" in found.message
    assert "10s" not in found.message


def test_a_restarted_container_tells_why_until_it_is_ready_again() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "Error", "message": "main: killed by signal 9"}}
    running = {"name": "main", "ready": False, "state": {"running": {}}, "lastState": ended}
    assert problem(pod(running)).reason is Reason.CONTAINER_RESTARTED
    assert "killed by signal 9" in problem(pod(running)).message
    assert problem(pod({**running, "ready": True})).reason is Reason.PODS_STARTING


def test_a_container_that_has_been_ready_is_not_said_to_start() -> None:
    status = {"name": "pd", "ready": False, "started": True, "state": {"running": {}}}
    described = {**pod(status), "spec": {"containers": [{"name": "pd", "startupProbe": {"httpGet": {}}}]}}
    assert problem(described).message == "pod p, container pd: started, but no longer ready"
    status["started"] = False
    assert problem(described).message == "pod p is starting"
    status.update(started=True, name="encoder-0")  # without a startup probe, so started from the beginning
    assert problem(described).message == "pod p is starting"


def test_the_worst_container_speaks_for_the_pod_and_the_worst_pod_for_the_stage() -> None:
    found = problem(pod({"name": "a", "ready": False, "state": {"running": {}}}, waiting("ImagePullBackOff", "gone")))
    assert found.reason is Reason.IMAGE_PULL_FAILED
    assert most_urgent([Problem(Reason.PODS_STARTING, "x"), found]) == found
    assert most_urgent([]) is None


def test_text_from_pods_is_bounded_and_on_one_line() -> None:
    hostile = "\x1b[31mred\n" * 1000
    message = problem(pod(waiting("CreateContainerConfigError", hostile))).message
    assert len(message) < MAX_TEXT + 100
    assert "\n" not in message
    assert "\x1b" not in message


def test_an_image_name_of_any_length_and_content_gives_a_bounded_message() -> None:
    message = problem(pod(waiting("ErrImagePull", "gone", image="\U000e0001" * 100_000))).message
    assert len(message) < 20 * MAX_TEXT


def test_a_pod_that_the_node_turned_away_is_told_with_the_kubelets_words() -> None:
    found = problem(pod(phase="Failed", reason="UnexpectedAdmissionError", message="Allocate failed: no GPU"))
    assert found == Problem(
        Reason.PODS_FAILED, "pod p has failed permanently: UnexpectedAdmissionError: Allocate failed: no GPU"
    )


def test_an_evicted_pod_is_no_problem_since_its_successor_takes_over() -> None:
    ended = {"name": "main", "ready": False, "state": {"terminated": {"exitCode": 137}}}
    disruption = {"type": "DisruptionTarget", "status": "True"}
    assert problem_of(pod(ended, phase="Failed", reason="Evicted", conditions=[disruption])) is None
    assert problem_of(pod(ended, phase="Succeeded")) is None


def lost(*, ready: str = "False", containers_ready: str = "True", **spec: Any) -> dict[str, Any]:
    """A pod whose readiness the node lifecycle controller has changed, and nothing else of its status."""
    running = {"name": "main", "ready": True, "state": {"running": {}}}
    conditions = [{"type": "ContainersReady", "status": containers_ready}, {"type": "Ready", "status": ready}]
    return {**pod(running, phase="Running", conditions=conditions), "spec": {"nodeName": "gb200-0", **spec}}


def test_a_pod_of_a_node_that_does_not_report_names_the_node() -> None:
    found = problem(lost())
    assert found == Problem(
        Reason.NODE_LOST, "pod p was ready, but its node gb200-0 has stopped reporting to Kubernetes"
    )


def test_a_lost_node_is_more_urgent_than_a_restarted_container() -> None:
    restarted = Problem(Reason.CONTAINER_RESTARTED, "")
    assert most_urgent([restarted, problem(lost())]) == problem(lost())


def test_a_pod_with_an_unready_container_or_a_readiness_gate_is_not_on_a_lost_node() -> None:
    assert problem(lost(containers_ready="False")).reason is Reason.PODS_STARTING
    gated = lost(readinessGates=[{"conditionType": "example.com/gate"}])
    assert problem(gated).reason is Reason.READINESS_GATES_NOT_READY
    assert problem_of(lost(ready="True")) is None


def test_every_problem_of_pods_is_more_urgent_than_a_pod_that_starts() -> None:
    assert all(r.traits.rank < Reason.PODS_STARTING.traits.rank for r in Reason if r.traits.section is Section.PODS)

"""Which pods count for a scaling decision."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.autoscaler.observe import stage_observations
from epd_operator.objects.identity import COMPONENT_LABEL, Identity, StageKey
from epd_operator.objects.pod_events import PodEvent
from epd_operator.objects.pods import TERMINATION_MARGIN
from epd_operator.plan.observation import ChildKey, Observation
from epd_operator.scaling.model import NodeSupply, PodRefusal, StageObservation
from support.specs import spec

IDENTITY = Identity(name="qwen", namespace="serving", uid="1")
WORKER = StageKey(StageName.WORKER)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
READY = [{"type": "Ready", "status": "True"}]
EVICTED = {"phase": "Failed", "reason": "Evicted"}
OUT_OF_GPUS = {"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}
UNSCHEDULABLE = {
    "conditions": [{"type": "PodScheduled", "status": "False", "lastTransitionTime": "2025-12-31T23:00:00Z"}]
}


def pod(
    name: str, status: dict[str, Any], *, terminating: bool = False, node: str | None = "gb200-0"
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {COMPONENT_LABEL: "worker"}}
    if terminating:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


def observed(
    *pods: dict[str, Any],
    events: tuple[PodEvent, ...] = (),
    failures: Sequence[Any] = (),
    updated: int = 4,
    **stages: Any,
) -> StageObservation:
    live = {
        "spec": {"replicas": 4},
        "metadata": {"generation": 1},
        "status": {"observedGeneration": 1, "replicas": 4, "updatedReplicas": updated, "conditions": [*failures]},
    }
    observation = Observation(
        identity=IDENTITY,
        generation=1,
        children={ChildKey("Deployment", IDENTITY.workload_name(WORKER)): live},
        pods=pods,
        pod_events=events,
    )
    chosen = spec("Aggregated", **stages)
    (worker,) = stage_observations(chosen, revision="", observation=observation, loads={}, at=0.0, now=NOW)
    return worker


@pytest.mark.parametrize("ended", [EVICTED, OUT_OF_GPUS, {"phase": "Succeeded"}], ids=["evicted", "refused", "ended"])
def test_pods_that_have_ended_are_neither_supply_nor_pending_nor_terminating(ended: dict[str, Any]) -> None:
    healthy = [pod(f"w{n}", {"phase": "Running", "conditions": READY}) for n in range(4)]
    over = [pod(f"x{n}", ended) for n in range(3)]
    worker = observed(*healthy, *over, pod("y", ended, terminating=True))
    assert [p.name for p in worker.pods] == ["w0", "w1", "w2", "w3"]
    assert worker.terminating == 0


def test_a_pod_that_was_refused_by_its_node_does_not_count_as_placed() -> None:
    waiting = pod("w1", UNSCHEDULABLE, node=None)
    worker = observed(pod("w0", {"conditions": READY}), pod("x", OUT_OF_GPUS), waiting)
    assert [(p.name, p.scheduled) for p in worker.pods] == [("w0", True), ("w1", False)]
    assert worker.unschedulable_seconds == 3600


def test_an_unschedulable_pod_that_has_ended_is_not_waited_for() -> None:
    worker = observed(pod("w0", {"conditions": READY}), pod("x", {**UNSCHEDULABLE, **EVICTED}, node=None))
    assert worker.unschedulable_seconds is None


def test_running_pods_that_are_deleted_count_as_terminating() -> None:
    worker = observed(pod("w0", {"conditions": READY}), pod("w1", {"conditions": READY}, terminating=True))
    assert ([p.name for p in worker.pods], worker.terminating) == (["w0"], 1)


def deleted(seconds_after_its_grace_period: int) -> StageObservation:
    """A stage with a pod that should have ended so many seconds ago."""
    end = NOW - timedelta(seconds=seconds_after_its_grace_period)
    gone = pod("w1", {"conditions": READY})
    gone["metadata"]["deletionTimestamp"] = end.isoformat().replace("+00:00", "Z")
    return observed(pod("w0", {"conditions": READY}), gone)


def test_a_terminating_pod_counts_for_its_grace_period_and_a_margin() -> None:
    margin = int(TERMINATION_MARGIN.total_seconds())
    assert [deleted(seconds).terminating for seconds in (-3600, 0, margin, margin + 1, 24 * 3600)] == [1, 1, 1, 0, 0]
    assert [p.name for p in deleted(24 * 3600).pods] == ["w0"]


@pytest.mark.parametrize("text", ["", "soon", "2026-01-01", "2026-01-01T00:00:00", None, 5])
def test_a_deletion_time_that_is_not_a_time_never_raises_and_the_pod_counts(text: Any) -> None:
    gone = pod("w1", {"conditions": READY})
    gone["metadata"]["deletionTimestamp"] = text
    assert observed(gone).terminating == bool(text)


def test_only_events_of_pods_without_a_node_report_that_one_is_coming() -> None:
    coming = PodEvent(pod="w1", reason="TriggeredScaleUp", component="cluster-autoscaler", last=NOW)
    assert observed(pod("w1", UNSCHEDULABLE, node=None), events=(coming,)).nodes is NodeSupply.COMING
    assert observed(pod("w1", {"conditions": READY}), events=(coming,)).nodes is NodeSupply.UNKNOWN


def in_rollout(*conditions: dict[str, Any], **chosen: Any) -> StageObservation:
    """Four ready pods of an old template and a new one, of a Deployment that may have one more than it has replicas."""
    old = [pod(f"w{n}", {"conditions": READY}) for n in range(4)]
    new = pod("new", {"conditions": list(conditions)}, node=None)
    new["metadata"]["labels"]["pod-template-hash"] = "new"
    rollout = {"maxSurge": 1, "maxUnavailable": 0, **chosen}
    return observed(*old, new, updated=1, worker={"pool": "gb200", "rollout": rollout})


def test_new_pods_of_a_blocked_rollout_are_not_about_to_start() -> None:
    blocked = in_rollout({**UNSCHEDULABLE["conditions"][0], "message": "0/1 nodes: 1 Insufficient nvidia.com/gpu."})
    assert (blocked.rolling_out, len(blocked.pods), blocked.unschedulable_seconds) == (False, 4, 3600)


def test_a_rollout_that_is_not_blocked_by_its_own_pods_is_waited_for() -> None:
    tainted = {**UNSCHEDULABLE["conditions"][0], "message": "0/1 nodes: 1 node(s) had untolerated taint(s)."}
    for going_on in (in_rollout(), in_rollout(tainted)):
        assert (going_on.rolling_out, len(going_on.pods)) == (True, 5)


@pytest.mark.parametrize(("message", "by_quota"), [("exceeded quota: gpus", True), ("violates PodSecurity", False)])
def test_refused_pods_are_observed_with_the_time_and_the_answer(message: str, by_quota: bool) -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": message}
    refusal = observed(failures=[{**failure, "lastTransitionTime": "2025-12-31T23:59:00Z"}]).refusal
    assert refusal == PodRefusal(message=message, seconds=60.0, by_quota=by_quota)
    timeless = observed(failures=[failure]).refusal
    assert timeless is not None
    assert timeless.seconds == 0


def test_a_refused_replica_set_limits_nothing_because_the_one_before_still_creates_pods() -> None:
    failed = {"type": "Progressing", "status": "False", "reason": "ReplicaSetCreateError", "message": "exceeded quota"}
    assert observed(failures=[{**failed, "lastTransitionTime": "2025-12-31T23:00:00Z"}]).refusal is None

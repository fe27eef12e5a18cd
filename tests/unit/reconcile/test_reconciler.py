"""Reconciles of what a cluster may hold and answer, without a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from epd_operator.cluster.errors import ClusterError, FaultError, NotFoundError, RefusedError, TooLargeError
from epd_operator.objects.kinds import Kind
from epd_operator.plan.children.registry import OPTIONAL_KINDS
from epd_operator.reconcile.reconciler import Key, Reconciler
from support.memory import MemoryCluster
from support.specs import raw_spec

KEY = Key("serving", "qwen")


def forbidden(request: str) -> RefusedError:
    return RefusedError("a policy says no", request=request, status=403)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


async def test_a_webhook_that_cannot_be_called_is_told_and_keeps_no_other_child_from_being_written(
    cluster: MemoryCluster,
) -> None:
    cluster.create(raw_spec("Aggregated"))
    cluster.failures["APPLY", "ServiceAccount"] = FaultError("failed calling webhook", request="APPLY", status=500)
    with pytest.raises(FaultError):
        await Reconciler(cluster).reconcile(KEY)
    assert ("Deployment", "qwen-worker") in cluster.objects
    assert "failed calling webhook" in cluster.condition("Ready")["message"]
    cluster.failures.clear()
    await Reconciler(cluster).reconcile(KEY)
    assert cluster.condition("Ready")["reason"] != "ChildRefused"


async def test_a_child_that_may_not_be_deleted_is_told_and_keeps_no_status_from_being_written(
    cluster: MemoryCluster,
) -> None:
    cluster.create(raw_spec("Aggregated"))
    await Reconciler(cluster).reconcile(KEY)
    cluster.create(raw_spec("CoLocated"), status=cluster.status())
    cluster.failures["DELETE", "Deployment"] = forbidden("DELETE")
    await Reconciler(cluster).reconcile(KEY)
    assert cluster.status()["topology"] == "CoLocated"
    assert (
        "the API server refused a request for Deployment qwen-frontend: a policy says no"
        in cluster.condition("Stalled")["message"]
    )


@pytest.mark.parametrize("kind", OPTIONAL_KINDS)
@pytest.mark.parametrize("error", [NotFoundError, RefusedError])
async def test_an_optional_kind_that_cannot_be_listed_is_reported_and_the_other_children_are_written(
    cluster: MemoryCluster, kind: Kind, error: type[ClusterError]
) -> None:
    cluster.create(raw_spec("Aggregated"))
    cluster.failures["LIST", kind.kind] = error("404 page not found", request="LIST")
    result = await Reconciler(cluster).reconcile(KEY)
    assert result.outcome == "refused"
    assert ("Deployment", "qwen-worker") in cluster.objects
    assert f"APPLY {kind.kind}" not in cluster.writes
    assert f"a request for {kind.kind} " in cluster.condition("Stalled")["message"]
    assert "404 page not found" in cluster.condition("Stalled")["message"]


async def test_a_required_kind_that_is_not_served_fails_the_reconcile(cluster: MemoryCluster) -> None:
    cluster.create(raw_spec("Aggregated"))
    cluster.failures["LIST", "Deployment"] = NotFoundError("404 page not found", request="LIST", status=404)
    with pytest.raises(NotFoundError):
        await Reconciler(cluster).reconcile(KEY)


async def test_a_spec_with_any_number_of_mistakes_is_told_within_bounds(cluster: MemoryCluster) -> None:
    requests = {f"{number}" + "x" * 10_000: "much" for number in range(16)}
    cluster.create(raw_spec("Aggregated", worker={"pool": "gb200", "resources": {"requests": requests}}))
    result = await Reconciler(cluster).reconcile(KEY)
    assert result.outcome == "invalid"
    assert "spec.worker.resources.requests.0x" in cluster.condition("Stalled")["message"]
    assert len(cluster.condition("Stalled")["message"]) <= 4096


@pytest.mark.parametrize("spec", [None, {}, [], "text", {"topology": None, "pools": {}}])
async def test_an_object_of_an_earlier_version_without_a_usable_spec_is_invalid(
    cluster: MemoryCluster, spec: object
) -> None:
    cluster.create(spec)
    result = await Reconciler(cluster).reconcile(KEY)
    assert result.outcome == "invalid"
    assert cluster.condition("Stalled")["reason"] == "SpecInvalid"


async def test_conditions_that_others_write_cause_no_write_of_ours(cluster: MemoryCluster) -> None:
    cluster.create(raw_spec("Aggregated"))
    for _ in range(3):
        await Reconciler(cluster).reconcile(KEY)
    cluster.status()["conditions"].insert(0, {"type": "example.com/Audited", "status": "True"})
    cluster.writes.clear()
    await Reconciler(cluster).reconcile(KEY)
    assert cluster.writes == []


async def test_a_status_that_does_not_fit_fails_the_reconcile_with_the_way_out(cluster: MemoryCluster) -> None:
    cluster.create(raw_spec("Aggregated"))
    failure = TooLargeError("etcdserver: request is too large", request="APPLY", status=500)
    cluster.failures["APPLY", "EPDDeployment"] = failure
    with pytest.raises(TooLargeError, match=r"the status cannot be written.*ConfigMap.*request is too large"):
        await Reconciler(cluster).reconcile(KEY)


async def test_a_cause_that_only_events_have_reaches_the_status_and_later_attempts_cause_no_write(
    cluster: MemoryCluster,
) -> None:
    cluster.create(raw_spec("Aggregated", runtime={"image": "i", "env": [{"name": "API_KEY", "value": "s3cret"}]}))
    reconciler = Reconciler(cluster, now=lambda: at)
    at = START
    await reconciler.reconcile(KEY)
    cluster.objects["Pod", "p"] = waiting_pod()
    cluster.objects["Event", "e"] = mount_event(minute=0)
    result = await reconciler.reconcile(KEY)
    assert cluster.condition("Ready")["reason"] == "VolumeNotReady"
    assert 'secret "[value of API_KEY]" not found' in cluster.condition("Ready")["message"]
    assert result.requeue_after == 30
    cluster.objects["Event", "e"] = mount_event(minute=2)
    cluster.writes.clear()
    cluster.queries.clear()
    at += timedelta(minutes=2)
    result = await reconciler.reconcile(KEY)
    assert (cluster.writes, len(cluster.queries)) == ([], 1)
    assert result.outcome == "settled"


START = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def waiting_pod() -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "qwen-worker-1a2b", "uid": "r", "controller": True}
    labels = {"app.kubernetes.io/component": "worker", "pod-template-hash": "1a2b"}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "metadata": {
            "name": "p", "namespace": "serving", "uid": "pod-1", "labels": labels, "ownerReferences": [owner],
        },
        "status": {"phase": "Pending", "conditions": [scheduled]},
    }  # fmt: skip


def mount_event(*, minute: int) -> dict[str, Any]:
    return {
        "involvedObject": {"uid": "pod-1"}, "reason": "FailedMount", "source": {"component": "kubelet"},
        "message": 'MountVolume.SetUp failed for volume "token" : secret "s3cret" not found',
        "count": 1 + minute, "lastTimestamp": f"2026-01-01T00:0{minute}:00Z",
    }  # fmt: skip

"""Passes over what a cluster may hold and answer, without a cluster."""

from __future__ import annotations

import pytest

from epd_operator.cluster.errors import FaultError, RefusedError
from epd_operator.runtime.reconciler import Key, Reconciler
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
    assert "Deployment qwen-worker was refused: a policy says no" in cluster.condition("Stalled")["message"]

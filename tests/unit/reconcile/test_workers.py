"""Workers and the resync."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from epd_operator.cluster.errors import RefusedError
from epd_operator.objects.identity import Key
from epd_operator.objects.kinds import Kind
from epd_operator.reconcile.queue import WorkQueue
from epd_operator.reconcile.reconciler import Reconciler
from epd_operator.reconcile.resync import resync
from epd_operator.reconcile.workers import Workers
from epd_operator.telemetry.metrics import Metrics
from support.memory import MemoryCluster
from support.specs import raw_spec


class TwoNamespaces(MemoryCluster):
    """The operator may read only the second."""

    async def list(self, kind: Kind, *, namespace: str | None, **_: Any) -> list[dict[str, Any]]:
        if namespace == "closed":
            raise RefusedError("forbidden", request=f"LIST {kind.plural}", status=403)
        return [{"metadata": {"namespace": namespace, "name": "qwen"}}]


async def test_a_namespace_that_may_not_be_read_does_not_keep_the_others_from_the_resync() -> None:
    queue: WorkQueue[Key] = WorkQueue(clock=lambda: 0.0, random=lambda: 0.0)
    task = asyncio.create_task(
        resync(
            TwoNamespaces(),
            queue=queue,
            known=tuple,
            metrics=Metrics(),
            namespaces=("closed", "open"),
            random=lambda: 0.0,
            clock=lambda: 0.0,
            interval=3600,
        )
    )
    assert await asyncio.wait_for(queue.get(), 60) == Key("open", "qwen")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_keys_of_objects_that_are_gone_are_forgotten_and_keys_of_failed_reconciles_are_kept() -> None:
    queue: WorkQueue[Key] = WorkQueue(clock=lambda: 0.0, random=lambda: 0.0)
    cluster = MemoryCluster()
    cluster.create(raw_spec("Aggregated"))
    workers = Workers(queue=queue, reconciler=Reconciler(cluster), metrics=Metrics(), clock=lambda: 0.0)
    task = asyncio.create_task(workers.run(1))
    for name in ("qwen", "never-existed"):
        queue.add(Key("serving", name))
    await _settled()
    assert workers.known_keys() == {Key("serving", "qwen")}
    cluster.failures["GET", "EPDDeployment"] = RefusedError("down", request="GET")
    queue.add(Key("serving", "unreadable"))
    await _settled()
    assert workers.known_keys() == {Key("serving", "qwen"), Key("serving", "unreadable")}
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert workers.known_keys() == frozenset()


async def _settled() -> None:
    for _ in range(200):
        await asyncio.sleep(0)

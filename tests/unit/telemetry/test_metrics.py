"""Metrics of the operator, as Prometheus reads them."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from epd_operator.cluster.client import Request
from epd_operator.cluster.errors import UnavailableError
from epd_operator.objects.identity import Key
from epd_operator.objects.kinds import EPD_DEPLOYMENT
from epd_operator.reconcile.queue import WorkQueue
from epd_operator.reconcile.reconciler import Reconciler, utc_now
from epd_operator.reconcile.resync import resync
from epd_operator.reconcile.workers import Workers
from epd_operator.telemetry.event_recorder import EventRecorder
from epd_operator.telemetry.metrics import Metrics
from epd_operator.telemetry.reports import Reports
from support.memory import MemoryCluster
from support.specs import raw_spec

KEY = Key("serving", "qwen")
FAMILIES = ("info", "condition", "stage_replicas", "generation", "observed_generation")


class Operator:
    """Queue, workers and resync with a cluster in memory and a clock that only the test advances."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.metrics = Metrics()
        self.cluster = MemoryCluster()
        self.queue: WorkQueue[Key] = WorkQueue(
            clock=self.clock, random=lambda: 0.0, on_wait=self.metrics.queue.observe_wait
        )
        self.metrics.queue.watch(self.queue)
        recorder = EventRecorder(
            self.cluster, count=self.metrics.events.observe, reporter="test", clock=self.clock, now=utc_now
        )
        self.reports = Reports(metrics=self.metrics.objects, recorder=recorder)
        reconciler = Reconciler(self.cluster, reports=self.reports)
        self.workers = Workers(queue=self.queue, reconciler=reconciler, metrics=self.metrics, clock=self.clock)

    def clock(self) -> float:
        return self.now

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def series(self, prefix: str = "epd_deployment_") -> set[str]:
        families = self.metrics.registry.collect()
        return {sample.name for family in families for sample in family.samples if sample.name.startswith(prefix)}

    @asynccontextmanager
    async def running(self, work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Run a task until it waits, and cancel it at the end of the block."""
        task = asyncio.ensure_future(work)
        await run_until_idle()
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def begin_resync(self, namespaces: tuple[str, ...] = ()) -> None:
        await resync(
            self.cluster, queue=self.queue, known=self.workers.known_keys, metrics=self.metrics,
            namespaces=namespaces, random=lambda: 0.0, clock=self.clock,
        )  # fmt: skip


async def run_until_idle() -> None:
    """Let all tasks run until they wait."""
    for _ in range(200):
        await asyncio.sleep(0)


@pytest.fixture
def operator() -> Operator:
    return Operator()


async def test_the_overdue_time_of_a_queue_without_workers_grows_without_new_events(operator: Operator) -> None:
    operator.queue.add(KEY)
    operator.queue.add(Key("serving", "later"), delay=60)
    operator.now += 42
    assert operator.value("epd_operator_queue_depth") == 2
    assert operator.value("epd_operator_queue_overdue_seconds") == 42


async def test_the_overdue_time_of_a_key_that_is_not_due_yet_is_zero(operator: Operator) -> None:
    operator.queue.add(KEY, delay=60)
    assert operator.value("epd_operator_queue_overdue_seconds") == 0


async def test_the_wait_of_a_key_starts_when_it_is_due_and_not_when_it_is_added(operator: Operator) -> None:
    operator.queue.add(KEY, delay=60)
    operator.now += 67
    await operator.queue.get()
    assert operator.value("epd_operator_queue_wait_seconds_sum") == 7
    assert operator.value("epd_operator_queue_wait_seconds_bucket", le="10.0") == 1
    assert operator.value("epd_operator_queue_wait_seconds_bucket", le="5.0") == 0


async def test_the_age_of_the_resync_grows_between_two_resyncs_and_is_nan_while_none_are_made(
    operator: Operator,
) -> None:
    def age() -> float:
        found = operator.value("epd_operator_resync_age_seconds")
        assert found is not None
        return found

    assert math.isnan(age())
    async with operator.running(operator.begin_resync()):
        operator.now += 400
        assert age() == 400
    assert math.isnan(age())


async def test_a_resync_with_an_unreadable_namespace_does_not_count(operator: Operator) -> None:
    class Closed(MemoryCluster):
        async def list(self, *_: Any, namespace: str | None, **__: Any) -> list[dict[str, Any]]:
            operator.now += 5
            if namespace == "closed":
                raise UnavailableError("down", request="LIST")
            return []

    operator.cluster = Closed()
    for namespaces, age in ((("open", "closed"), 10), (("open",), 0)):
        async with operator.running(operator.begin_resync(namespaces)):
            assert operator.value("epd_operator_resync_age_seconds") == age


def test_a_request_is_counted_with_its_duration(operator: Operator) -> None:
    operator.metrics.api.observe(Request(verb="APPLY", kind="Service", status=409, seconds=0.3))
    assert operator.value("epd_operator_api_requests_total", verb="APPLY", kind="Service", status="409") == 1
    assert operator.value("epd_operator_api_request_duration_seconds_sum", verb="APPLY") == 0.3


async def test_failed_reconciles_are_counted_by_the_kind_of_error(operator: Operator) -> None:
    operator.cluster.failures["GET", "EPDDeployment"] = UnavailableError("down", request="GET", status=503)
    operator.queue.add(KEY)
    async with operator.running(operator.workers.run(1)):
        operator.cluster.failures["GET", "EPDDeployment"] = ValueError("a mistake")  # type: ignore[assignment]
        operator.now += 60
        operator.queue.add(KEY)
        await run_until_idle()
    assert operator.value("epd_operator_reconcile_errors_total", error="Unavailable") == 1
    assert operator.value("epd_operator_reconcile_errors_total", error="Unexpected") == 1


async def test_an_object_is_exported_after_a_reconcile_without_writes(operator: Operator) -> None:
    operator.cluster.create(raw_spec("Aggregated", model={"name": "org/model"}))
    for _ in range(3):
        await Reconciler(operator.cluster).reconcile(KEY)
    operator.cluster.writes.clear()
    reconciler = Reconciler(operator.cluster, reports=operator.reports)
    await reconciler.reconcile(KEY)
    assert operator.cluster.writes == []
    names = {"namespace": "serving", "deployment": "qwen"}
    assert operator.value("epd_deployment_info", **names, topology="Aggregated", model="org/model") == 1
    ready = {"type": "Ready", "status": "False", "reason": "PodsStarting"}
    assert operator.value("epd_deployment_condition", **names, **ready) == 1
    assert operator.value("epd_deployment_stage_replicas", **names, stage="worker", state="desired") == 2
    assert operator.value("epd_deployment_stage_replicas", **names, stage="worker", state="ready") == 0
    assert operator.value("epd_deployment_generation", **names) == 1
    assert operator.value("epd_deployment_observed_generation", **names) == 1


async def test_after_a_failed_reconcile_the_new_generation_is_exported_as_not_observed(
    operator: Operator,
) -> None:
    operator.cluster.create(raw_spec("Aggregated"))
    reconciler = Reconciler(operator.cluster, reports=operator.reports)
    await reconciler.reconcile(KEY)
    operator.cluster.objects[EPD_DEPLOYMENT.kind, "qwen"]["metadata"]["generation"] = 2
    operator.cluster.failures["LIST", "Pod"] = UnavailableError("down", request="LIST")
    with pytest.raises(UnavailableError):
        await reconciler.reconcile(KEY)
    names = {"namespace": "serving", "deployment": "qwen"}
    assert operator.value("epd_deployment_generation", **names) == 2
    assert operator.value("epd_deployment_observed_generation", **names) == 1


async def test_series_of_a_deleted_object_are_removed_even_if_the_watch_missed_the_deletion(operator: Operator) -> None:
    operator.cluster.create(raw_spec("Aggregated"))
    operator.queue.add(KEY)
    async with operator.running(operator.workers.run(1)):
        assert operator.series() == {f"epd_deployment_{name}" for name in FAMILIES}
        del operator.cluster.objects[EPD_DEPLOYMENT.kind, "qwen"]
        operator.now += 1
        async with operator.running(operator.begin_resync()):
            assert operator.series() == set()


async def test_a_replica_that_no_longer_leads_exports_no_objects(operator: Operator) -> None:
    operator.cluster.create(raw_spec("Aggregated"))
    operator.queue.add(KEY)
    async with operator.running(operator.workers.run(1)):
        assert operator.series()
    assert operator.series() == set()

"""Events on a real API server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import Identity, Key, StageKey
from epd_operator.objects.kinds import DEPLOYMENT, EVENT, POD
from epd_operator.plan.status.status_events import MAX_NOTE, StatusEvent, scaling_event
from epd_operator.reconcile.reconciler import Reconciler, utc_now
from epd_operator.scaling.model import Decision, ScalingReason
from epd_operator.telemetry.deployment_metrics import DeploymentMetrics
from epd_operator.telemetry.event_recorder import RATE, EventOutcome, EventRecorder
from epd_operator.telemetry.reports import Reports
from support.life_cycle import RUNNING, patch, pods, report_status
from support.operated import PRIMARIES, World
from support.specs import raw_spec
from support.waiting import PATIENCE_SECONDS, eventually


class Instance:
    """One instance of the operator, from its start to its end."""

    def __init__(self, world: World, *, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.outcomes: Counter[str] = Counter()
        self._counted = asyncio.Event()
        self._world = world
        self.recorder = EventRecorder(world.cluster, count=self._count, reporter="pod-1", clock=clock, now=utc_now)
        reports = Reports(metrics=DeploymentMetrics(), recorder=self.recorder)
        self._reconciler = Reconciler(world.cluster, reports=reports)

    def _count(self, _event: StatusEvent, outcome: EventOutcome) -> None:
        self.outcomes[outcome.value] += 1
        self._counted.set()

    async def reconcile(self, count: int = 3) -> None:
        for _ in range(count):
            await self._reconciler.reconcile(Key(self._world.namespace, "qwen"))

    async def written(self, count: int) -> None:
        """Wait until that many Events have an outcome."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.outcomes.total() < count:
                self._counted.clear()
                await self._counted.wait()


@asynccontextmanager
async def instance(world: World) -> AsyncIterator[Instance]:
    made = Instance(world)
    task = asyncio.ensure_future(made.recorder.run())
    try:
        yield made
    finally:
        task.cancel()


async def events(world: World) -> list[dict[str, Any]]:
    found = await world.cluster.list(EVENT, namespace=world.namespace)
    mine = [event for event in found if event["reportingController"] == "epd.dev/epd-operator"]
    return sorted(mine, key=lambda event: str(event["eventTime"]))


async def reasons(world: World) -> list[tuple[str, str]]:
    return [(event["type"], event["reason"]) for event in await events(world)]


def identity(world: World, uid: str = "u-1") -> Identity:
    return Identity(name="qwen", namespace=world.namespace, uid=uid)


def scaled(message: str = "words") -> StatusEvent:
    decision = Decision(
        stage=StageKey(StageName.PD), current=1, desired=2, reason=ScalingReason.LOAD_ABOVE_TARGET, message=message
    )
    return scaling_event(decision)


async def ready(world: World) -> None:
    for name in ("qwen-frontend", "qwen-worker"):
        await world.report_ready(name)


async def test_consecutive_instances_report_only_once_that_an_object_becomes_ready(world: World) -> None:
    primary = world.create(raw_spec("Aggregated"))
    async with instance(world) as first:
        await first.reconcile()
        await ready(world)
        await first.reconcile()
        await first.written(2)
        assert await reasons(world) == [("Normal", "RequestsAnswered"), ("Normal", "AllStagesReady")]
    async with instance(world) as second:
        await second.reconcile()
        # A status that is written for another reason does not repeat the Events.
        place = f"{PRIMARIES.format(world.namespace)}/qwen"
        change = {"spec": {"slo": {"timeToFirstTokenMilliseconds": 900}}}
        assert world.server.client.request("PATCH", place, change, content_type="application/merge-patch+json").ok
        await second.reconcile()
        assert (await world.conditions())["Ready"]["observedGeneration"] == 2
        assert second.outcomes.total() == 0
    regarding = (await events(world))[0]["regarding"]
    assert (regarding["kind"], regarding["name"]) == ("EPDDeployment", "qwen")
    assert regarding["uid"] == primary["metadata"]["uid"]


async def test_a_change_of_replicas_is_not_reported_as_a_rollout_and_a_new_template_is_once(live_world: World) -> None:
    world = live_world
    world.create(raw_spec("Aggregated"))
    async with instance(world) as operator:

        async def run() -> None:
            """Act as kubelets on which all pods run, until the object is ready."""

            async def is_ready() -> bool:
                await operator.reconcile(1)
                for component in ("frontend", "worker"):
                    for pod in await pods(world, component):
                        report_status(world, pod, RUNNING)
                return (await world.conditions())["Ready"]["status"] == "True"

            await eventually(is_ready, state=world.conditions)

        await run()
        for replicas in (4, 1):
            patch(world, {"spec": {"worker": {"replicas": replicas}}})
            await run()
        assert "RollingOut" not in [reason for _, reason in await reasons(world)]
        patch(world, {"spec": {"worker": {"args": ["--enforce-eager"]}}})
        await run()
        await operator.written(6)
    (rollout,) = [event for event in await events(world) if event["reason"] == "RollingOut"]
    assert "series" not in rollout


async def test_a_failed_image_pull_is_reported_with_the_message_of_the_pod_and_so_is_the_loss_of_service(
    world: World,
) -> None:
    world.create(raw_spec("Aggregated"))
    async with instance(world) as operator:
        await operator.reconcile()
        await ready(world)
        await operator.reconcile()
        await operator.written(2)
        await break_worker(world)
        await operator.reconcile()
        await operator.written(4)
    problem, lost = (await events(world))[2:]
    assert (problem["type"], problem["reason"], problem["action"]) == ("Warning", "ImagePullFailed", "StartPods")
    assert problem["note"].startswith("worker 0/2: ")
    assert "no such image" in problem["note"]
    assert (lost["type"], lost["reason"], lost["action"]) == ("Warning", "NoReadyPods", "Serve")


async def break_worker(world: World) -> None:
    """Act as the nodes: no worker pod is ready, and one reports why."""
    live = await world.find(DEPLOYMENT, "qwen-worker")
    status = {"observedGeneration": live["metadata"]["generation"], "replicas": 2, "updatedReplicas": 2}
    status |= {"readyReplicas": 0, "availableReplicas": 0}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "status": status}
    body["metadata"] = {"name": "qwen-worker", "namespace": world.namespace}
    await world.cluster.apply(DEPLOYMENT, body=body, field_manager="nodes", subresource="status")
    template = live["spec"]["template"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "qwen-worker-1a2b",
        "uid": "rs-1",
        "controller": True,
    }
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "qwen-worker-1a2b-x",
            "namespace": world.namespace,
            "labels": {**template["metadata"]["labels"], "pod-template-hash": "1a2b"},
            "ownerReferences": [owner],
        },
        "spec": {
            "containers": [{"name": "main", "image": "i"}],
            "serviceAccountName": template["spec"]["serviceAccountName"],
        },
    }
    await world.cluster.create(POD, namespace=world.namespace, body=pod)
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    container = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    pod["status"] = {"phase": "Pending", "containerStatuses": [{**container, "state": {"waiting": waiting}}]}
    await world.cluster.apply(POD, body=pod, field_manager="nodes", subresource="status")


async def test_a_repeated_event_is_one_event_with_a_count(world: World) -> None:
    async with instance(world) as operator:
        for count in range(1, 4):
            operator.recorder.record(identity(world), scaled())
            await operator.written(count)
    (event,) = await events(world)
    assert event["series"]["count"] == 3
    assert event["series"]["lastObservedTime"] > event["eventTime"]
    assert operator.outcomes == {"written": 1, "merged": 2}


async def test_the_api_server_accepts_the_longest_note_in_any_script(world: World) -> None:
    async with instance(world) as operator:
        operator.recorder.record(identity(world), scaled("日本" * 2000))
        operator.recorder.record(identity(world), scaled("x" * 5000))
        await operator.written(2)
    assert operator.outcomes == {"written": 2}
    assert max(len(event["note"].encode()) for event in await events(world)) == MAX_NOTE


async def test_events_in_a_terminating_or_deleted_namespace_are_dropped_without_a_log_line(
    live_world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world = live_world
    request, maps = world.server.client.request, f"/api/v1/namespaces/{world.namespace}/configmaps"
    # An object with a finalizer keeps the namespace terminating.
    assert request("POST", maps, {"metadata": {"name": "held", "finalizers": ["example.com/held"]}}).ok
    assert request("DELETE", f"/api/v1/namespaces/{world.namespace}").ok
    async with instance(world) as operator:
        operator.recorder.record(identity(world), scaled())
        operator.recorder.record(Identity(name="qwen", namespace="no-such-namespace", uid="u-1"), scaled())
        await operator.written(2)
    request("PATCH", f"{maps}/held", {"metadata": {"finalizers": []}}, content_type="application/merge-patch+json")
    assert operator.outcomes == {"dropped": 2}
    assert [record for record in caplog.records if record.name.startswith("epd_operator")] == []


async def test_an_object_that_keeps_flapping_causes_a_bounded_number_of_events_and_writes(world: World) -> None:
    async with instance(world) as operator:
        for number in range(1000):
            operator.recorder.record(identity(world), scaled(f"try {number % 50}"))
            await operator.written(number + 1)
    assert len(await events(world)) == RATE.burst
    assert world.requests["CREATE Event"] + world.requests["PATCH Event"] == RATE.burst

"""A stage that is scaled beyond a quota, with the real controllers of Deployments, ReplicaSets and quotas.

The scaling loop is the operator's own. Its clock is virtual, so that the back-off takes no time; the loads are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from epd_operator.api.v1alpha1.autoscaling import MetricsSource
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.autoscaler.loop import Autoscaler
from epd_operator.loads.measurements import Measurements
from epd_operator.loads.targets import Target
from epd_operator.objects.identity import Identity, Key, StageKey
from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT
from epd_operator.objects.pods import is_ready
from epd_operator.reconcile.reconciler import Reconciler
from epd_operator.scaling.model import Decision, PodLoad, ScalingReason
from epd_operator.telemetry.scaling_metrics import ScalingMetrics
from support.life_cycle import RUNNING, pods, report_status
from support.operated import World
from support.specs import raw_spec
from support.waiting import eventually

WORKER = StageKey(StageName.WORKER)
STEP = 15
QUOTA: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "gpus"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "2"}},
}


class EvenLoad:
    """Stands for the metrics of the pods: requests, spread evenly over the ready workers."""

    def __init__(self, total: float) -> None:
        self.total = total
        self.at = 0.0

    def obstacle(self, _source: MetricsSource) -> str | None:
        return None

    async def read(self, _source: MetricsSource, targets: Sequence[Target], **_options: str) -> Measurements:
        workers = [target.pod for target in targets if "-worker-" in target.pod]
        each = self.total / max(1, len(workers))
        loads = {pod: PodLoad(name=pod, ready=True, requests=each, measured_at=self.at) for pod in workers}
        return Measurements(loads=loads, latencies={}, stages={})


class ScaledWorld:
    """An operator with its scaling loop, in a world with real controllers."""

    def __init__(self, world: World, *, load: float) -> None:
        self.world = world
        self.key = Key(world.namespace, "qwen")
        self.loads = EvenLoad(load)
        self.skipped = timedelta()
        self.scaler = Autoscaler(
            sources=self.loads,  # type: ignore[arg-type]
            enqueue=lambda _: None,
            record_event=lambda *_: None,
            metrics=ScalingMetrics(CollectorRegistry()),
            clock=lambda: self.loads.at,
            now=lambda: datetime.now(tz=UTC) + self.skipped,
        )

    async def step(self) -> Decision | None:
        """Reconcile, act as kubelets on which all pods run, and decide; then 15 s have passed."""
        await Reconciler(self.world.cluster, scaling=self.scaler).reconcile(self.key)
        for component in ("frontend", "worker"):
            for pod in await pods(self.world, component):
                if not is_ready(pod):
                    report_status(self.world, pod, {**RUNNING, "podIP": "10.0.0.1"})
        await self.scaler.round(self.key)
        self.loads.at += STEP
        self.skipped += timedelta(seconds=STEP)
        uid = (await self.world.find(EPD_DEPLOYMENT, "qwen"))["metadata"]["uid"]
        identity = Identity(name="qwen", namespace=self.world.namespace, uid=uid)
        return self.scaler.decisions(self.key, identity=identity).get(WORKER)

    async def until(self, *, desired: int, pods_exist: int, reason: ScalingReason | None = None) -> Decision:
        """Steps until the decision, the Deployment and the pods agree with this."""
        found: list[Decision] = []

        async def reached() -> bool:
            decision = await self.step()
            live = await self.world.cluster.get(DEPLOYMENT, namespace=self.world.namespace, name="qwen-worker")
            if decision is None or live is None:
                return False
            found[:] = [decision]
            numbers = (decision.desired, live["spec"]["replicas"], len(await pods(self.world, "worker")))
            return numbers == (desired, desired, pods_exist) and reason in (None, decision.reason)

        async def state() -> object:
            return found, await self.world.find(DEPLOYMENT, "qwen-worker")

        await eventually(reached, state=state)
        return found[0]

    def set_quota(self, gpus: int) -> None:
        path = f"/api/v1/namespaces/{self.world.namespace}/resourcequotas/gpus"
        body = {"spec": {"hard": {"requests.nvidia.com/gpu": str(gpus)}}}
        answer = self.world.server.client.request("PATCH", path, body, content_type="application/merge-patch+json")
        assert answer.ok, answer.message


async def test_a_stage_grows_up_to_its_quota_reports_it_and_grows_on_when_the_quota_is_raised(
    live_world: World,
) -> None:
    quotas = f"/api/v1/namespaces/{live_world.namespace}/resourcequotas"
    assert live_world.server.client.create(quotas, QUOTA).ok
    autoscaling = {"maxReplicas": 6, "metrics": [{"type": "Requests", "targetPerReplica": 10}]}
    live_world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 1, "autoscaling": autoscaling}))
    operated = ScaledWorld(live_world, load=40.0)

    capped = await operated.until(desired=2, pods_exist=2, reason=ScalingReason.QUOTA_EXCEEDED)
    assert "exceeded quota: gpus" in capped.message
    status = (await live_world.find(EPD_DEPLOYMENT, "qwen"))["status"]
    assert status["stages"][1]["scaling"]["reason"] == "QuotaExceeded"

    operated.set_quota(4)
    grown = await operated.until(desired=4, pods_exist=4)
    assert grown.reason is not ScalingReason.QUOTA_EXCEEDED

"""An operator with its own scaling loop, on a real API server with the controllers of Deployments and ReplicaSets.

The clock of the loop is virtual, so that windows and back-offs take no time; the loads are given.
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
from epd_operator.objects.pods import is_ready, unscheduled_of
from epd_operator.reconcile.reconciler import Reconciler
from epd_operator.scaling.model import Decision, PodLoad, ScalingReason
from epd_operator.telemetry.scaling_metrics import ScalingMetrics
from support.life_cycle import INSUFFICIENT, RUNNING, pods, report_status
from support.operated import World
from support.waiting import eventually

WORKER = StageKey(StageName.WORKER)
STEP = 15
SCHEDULED = {"type": "PodScheduled", "status": "True"}
NO_GPU = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": INSUFFICIENT}


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
    """An operator with its scaling loop, in a world with real controllers and nodes with so many GPUs."""

    def __init__(self, world: World, *, load: float, gpus: int = 100) -> None:
        self.world = world
        self.key = Key(world.namespace, "qwen")
        self.loads = EvenLoad(load)
        self.gpus = gpus
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
        """Reconcile, act as scheduler and kubelets, and decide; then 15 s have passed."""
        await Reconciler(self.world.cluster, scaling=self.scaler).reconcile(self.key)
        for pod in await pods(self.world, "frontend"):
            if not is_ready(pod):
                self._report_running(pod)
        await self._run_workers()
        await self.scaler.round(self.key)
        self.loads.at += STEP
        self.skipped += timedelta(seconds=STEP)
        uid = (await self.world.find(EPD_DEPLOYMENT, "qwen"))["metadata"]["uid"]
        identity = Identity(name="qwen", namespace=self.world.namespace, uid=uid)
        return self.scaler.decisions(self.key, identity=identity).get(WORKER)

    async def _run_workers(self) -> None:
        """Pods without a GPU find no node; the others run."""
        found = await pods(self.world, "worker")
        free = self.gpus - sum(is_ready(pod) for pod in found)
        for pod in found:
            if is_ready(pod):
                continue
            if free > 0:
                self._report_running(pod)
            elif unscheduled_of(pod) is None:
                report_status(self.world, pod, {"conditions": [NO_GPU]})
            free -= 1

    def _report_running(self, pod: dict[str, Any]) -> None:
        conditions = [SCHEDULED, *RUNNING["conditions"]]
        report_status(self.world, pod, {**RUNNING, "conditions": conditions, "podIP": "10.0.0.1"})

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

"""The replicas of a scaled stage and the choice of pods to delete, on a real API server with its controllers."""

from __future__ import annotations

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import Identity, Key, StageKey
from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT, POD
from epd_operator.plan.observation import Observation
from epd_operator.reconcile.reconciler import Reconciler
from epd_operator.scaling.model import Decision, ScalingReason
from support.operated import World
from support.specs import raw_spec
from support.waiting import eventually


async def test_an_external_client_can_set_the_scale_of_a_stage_and_the_operator_does_not_reset_it(world: World) -> None:
    external = {"pool": "gb200", "replicas": 3, "autoscaling": {"mode": "External", "maxReplicas": 9}}
    world.create(raw_spec("Aggregated", worker=external))
    await world.settle()
    path = f"/apis/epd.dev/v1alpha1/namespaces/{world.namespace}/epdstagescales/qwen-worker/scale"
    scale = world.server.client.get(path).body
    assert scale["spec"]["replicas"] == 3
    assert "epd.dev/deployment=qwen" in scale["status"]["selector"]
    scale["spec"]["replicas"] = 5
    assert world.server.client.request("PUT", path, scale).ok
    await world.settle()
    assert (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["replicas"] == 5
    assert world.server.client.get(path).body["spec"]["replicas"] == 5
    assert (await world.find(EPD_DEPLOYMENT, "qwen"))["metadata"]["generation"] == 1
    assert await world.reconcile() == []


class FixedDecision:
    """A scaler with a fixed decision."""

    def __init__(self, desired: int, *, loads: dict[str, float]) -> None:
        self._desired = desired
        self._loads = loads

    def decisions(self, _key: Key, *, identity: Identity) -> dict[StageKey, Decision]:
        decision = Decision(
            stage=StageKey(StageName.WORKER),
            current=3,
            desired=self._desired,
            reason=ScalingReason.LOAD_BELOW_TARGET,
            message=f"{identity.name} is idle",
        )
        return {StageKey(StageName.WORKER): decision}

    def loads(self, _key: Key) -> dict[str, float]:
        return self._loads

    def update(
        self, key: Key, *, spec: EPDDeploymentSpec, revision: str, observation: Observation, gpus_beside: int = 0
    ) -> None:
        """Nothing to remember."""

    def forget(self, key: Key) -> None:
        """Nothing to forget."""


async def test_the_operators_decision_is_not_written_to_the_spec_and_the_least_busy_pod_is_deleted(
    live_world: World,
) -> None:
    world, key = live_world, Key(live_world.namespace, "qwen")
    autoscaling = {"maxReplicas": 9, "metrics": [{"type": "Requests", "targetPerReplica": 8}]}
    world.create(raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 3, "autoscaling": autoscaling}))
    await world.settle()
    workers = "epd.dev/deployment=qwen,app.kubernetes.io/component=worker"

    async def pods() -> set[str]:
        found = await world.cluster.list(POD, namespace=world.namespace, selector=workers)
        return {pod["metadata"]["name"] for pod in found if not pod["metadata"].get("deletionTimestamp")}

    async def three() -> bool:
        return len(await pods()) == 3

    async def two() -> bool:
        return len(await pods()) == 2

    await eventually(three, state=pods)
    busy, idle, busier = sorted(await pods())
    scaler = FixedDecision(2, loads={busy: 4.0, idle: 0.0, busier: 9.0})
    await Reconciler(world.cluster, scaling=scaler).reconcile(key)
    await eventually(two, state=pods)
    assert await pods() == {busy, busier}
    primary = await world.find(EPD_DEPLOYMENT, "qwen")
    assert primary["metadata"]["generation"] == 1
    assert primary["spec"]["worker"]["replicas"] == 3
    assert primary["status"]["stages"][1]["scaling"]["desired"] == 2

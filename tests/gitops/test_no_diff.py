"""GitOps tools apply the same manifest repeatedly: after the first time nothing differs and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import Identity, Key, StageKey
from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT
from epd_operator.plan.children.registry import CHILD_KINDS
from epd_operator.plan.observation import Observation
from epd_operator.plan.replicas import is_internal
from epd_operator.reconcile.reconciler import Reconciler
from epd_operator.scaling.model import Decision, ScalingReason
from support.apiserver import ApiServer
from support.examples import deployment_files
from support.gitops import EXAMPLES
from support.kubectl import Kubectl
from support.operated import READS, World
from support.specs import raw_spec
from support.waiting import PATIENCE_SECONDS

OVERLAYS = sorted(path.parent for path in (EXAMPLES / "kustomize").rglob("kustomization.yaml"))
SOURCES = {
    **{f"{path.parent.name}/{path.name}": ("-f", path) for path in deployment_files()},
    **{f"kustomize/{folder.name}": ("-k", folder) for folder in OVERLAYS},
}
MODES = {"server-side": ("--server-side",), "client-side": ()}


class FixedDecision:
    """A scaler that decides on three replicas for every stage that the operator scales."""

    def __init__(self, spec: dict[str, Any]) -> None:
        parsed = EPDDeploymentSpec.model_validate(spec)
        self._decisions = {
            StageKey(stage): Decision(
                stage=StageKey(stage),
                current=1,
                desired=3,
                reason=ScalingReason.LOAD_BELOW_TARGET,
                message="it is busy",
            )
            for stage in StageName
            if getattr(parsed, stage.value, None) is not None and is_internal(parsed, stage)
        }

    def decisions(self, _key: Key, *, identity: Identity) -> dict[StageKey, Decision]:  # noqa: ARG002
        return self._decisions

    def loads(self, _key: Key) -> dict[str, float]:
        return {}

    def update(
        self, key: Key, *, spec: EPDDeploymentSpec, revision: str, observation: Observation, gpus_beside: int = 0
    ) -> None:
        """Nothing to remember."""

    def forget(self, key: Key) -> None:
        """Nothing to forget."""


async def settle(world: World, name: str) -> int:
    """Reconcile until nothing is written, while nodes run every pod; returns the number of writes."""
    spec = (await world.find(EPD_DEPLOYMENT, name))["spec"]
    reconciler, total = Reconciler(world.cluster, scaling=FixedDecision(spec)), 0
    for _ in range(20):
        world.requests.clear()
        await reconciler.reconcile(Key(world.namespace, name))
        written = sum(count for request, count in world.requests.items() if not request.startswith(READS))
        total += written
        started = [d for d in await world.cluster.list(DEPLOYMENT, namespace=world.namespace) if not _is_up(d)]
        for deployment in started:
            await world.report_ready(deployment["metadata"]["name"])
        if not written and not started:
            return total
    raise AssertionError(f"still writing: {world.requests}")


def _is_up(deployment: dict[str, Any]) -> bool:
    status = deployment.get("status", {})
    seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return seen and status.get("readyReplicas") == deployment["spec"]["replicas"]


async def versions(world: World) -> dict[str, str]:
    """Resource versions of all objects: they change with every write."""
    return {
        f"{kind.kind} {item['metadata']['name']}": item["metadata"]["resourceVersion"]
        for kind in (EPD_DEPLOYMENT, *CHILD_KINDS)
        for item in await world.cluster.list(kind, namespace=world.namespace)
    }


def is_within(part: Any, whole: Any) -> bool:
    """Whether the stored object has every field of a manifest, with exactly the same values."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and is_within(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(is_within, part, whole))
    return type(part) is type(whole) and bool(part == whole)


def kubectl_of(world: World) -> Kubectl:
    """kubectl in the world's namespace."""
    return Kubectl(kubeconfig=world.server.kubeconfig, namespace=world.namespace)


def rendered(flag: str, source: Path) -> dict[str, Any]:
    """The manifest that is applied, without the namespace that an overlay chooses."""
    text = source.read_text() if flag == "-f" else Kubectl().get("kustomize", source)
    document: dict[str, Any] = yaml.safe_load(text)
    document["metadata"].pop("namespace", None)
    return document


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
async def test_a_second_apply_changes_nothing(
    world: World, tmp_path: Path, source: tuple[str, Path], mode: tuple[str, ...]
) -> None:
    manifest = rendered(*source)
    name, kubectl, path = manifest["metadata"]["name"], kubectl_of(world), tmp_path / "manifest.yaml"
    path.write_text(yaml.safe_dump(manifest) if source[0] == "-k" else source[1].read_text())
    kubectl.get("apply", *mode, "-f", path)
    await settle(world, name)
    live, before = await world.find(EPD_DEPLOYMENT, name), await versions(world)
    assert {c["type"]: c["status"] for c in live["status"]["conditions"]}["Ready"] == "True"
    assert is_within(manifest["spec"], live["spec"])

    # In the mode of the apply: the two modes write kubectl's own annotation differently.
    difference = kubectl.run("diff", *mode, "-f", path)
    assert (difference.code, difference.output, difference.errors) == (0, "", "")
    kubectl.get("apply", *mode, "-f", path)
    assert await settle(world, name) == 0
    assert await versions(world) == before
    assert live["metadata"]["generation"] == 1


async def test_a_change_of_the_manifest_is_shown_as_a_difference(world: World) -> None:
    manifest = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "qwen"}}
    kubectl, before = kubectl_of(world), raw_spec("Aggregated")
    after = raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 5})
    kubectl.get("apply", "--server-side", "-f", "-", stdin=json.dumps({**manifest, "spec": before}))
    await settle(world, "qwen")
    difference = kubectl.run("diff", "--server-side", "-f", "-", stdin=json.dumps({**manifest, "spec": after}))
    assert difference.code == 1
    assert "+    replicas: 5" in difference.output


async def test_scaling_is_not_written_to_the_spec(world: World) -> None:
    autoscaling = {"maxReplicas": 9, "metrics": [{"type": "Requests", "targetPerReplica": 8}]}
    world.create(raw_spec("Aggregated", worker={"pool": "gb200", "autoscaling": autoscaling}))
    await settle(world, "qwen")
    live = await world.find(EPD_DEPLOYMENT, "qwen")
    assert live["spec"]["worker"]["replicas"] == 1
    assert live["status"]["stages"][1]["scaling"]["desired"] == 3
    assert (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["replicas"] == 3


async def test_quantities_keep_their_notation(world: World) -> None:
    amounts = {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"memory": "2048Mi"}}
    spec = raw_spec("Aggregated", worker={"pool": "gb200", "resources": amounts, "sharedMemory": "1024Mi"})
    manifest = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "qwen"}, "spec": spec}
    kubectl = kubectl_of(world)
    kubectl.get("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))
    await settle(world, "qwen")
    assert is_within(spec, (await world.find(EPD_DEPLOYMENT, "qwen"))["spec"])
    assert kubectl.run("diff", "--server-side", "-f", "-", stdin=json.dumps(manifest)).code == 0


async def test_the_operator_does_not_undo_a_rollout_restart(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await settle(world, "qwen")
    kubectl_of(world).get("rollout", "restart", "deployment/qwen-worker")
    await settle(world, "qwen")
    template = (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["template"]
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]


def test_an_overlay_needs_only_its_namespace(api_server: ApiServer, tmp_path: Path) -> None:
    """As Argo CD and Flux apply it: the overlay's own namespace exists, and nothing else."""
    kubectl = Kubectl(kubeconfig=api_server.kubeconfig)
    for folder in OVERLAYS:
        manifest: dict[str, Any] = yaml.safe_load(kubectl.get("kustomize", folder))
        namespace = manifest["metadata"].get("namespace", "default")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        api_server.client.create("/api/v1/namespaces", body)
        kubectl.get("apply", "--server-side", "--dry-run=server", "-k", folder)


async def test_kubectl_waits_for_the_spec_that_was_applied_last(world: World) -> None:
    manifest = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "qwen"}}
    kubectl, wait = kubectl_of(world), ("wait", "epd/qwen", "--for=condition=Ready")
    kubectl.get("apply", "--server-side", "-f", "-", stdin=json.dumps({**manifest, "spec": raw_spec("Aggregated")}))
    assert kubectl.run(*wait, "--timeout=1s").code == 1
    await settle(world, "qwen")
    assert kubectl.run(*wait, f"--timeout={PATIENCE_SECONDS:.0f}s").code == 0
    changed = raw_spec("Aggregated", worker={"pool": "gb200", "replicas": 5})
    kubectl.get("apply", "--server-side", "-f", "-", stdin=json.dumps({**manifest, "spec": changed}))
    assert kubectl.run(*wait, "--timeout=1s").code == 1

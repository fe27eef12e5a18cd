"""The phases in the life cycle of an EPDDeployment, produced by the real reconciler and the real controllers.

Each function takes a new world and brings its object, ``qwen``, into one phase.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from epd_operator.objects.identity import INITIAL_REVISION, Identity, Key
from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT, POD
from epd_operator.objects.pods import is_ready
from epd_operator.plan.observation import Findings, Observation
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.reconcile.reconciler import Reconciler
from support.operated import PRIMARIES, World
from support.rollouts import Comparer, Verifier
from support.specs import raw_spec
from support.waiting import eventually

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
RUNNING = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
}

ANOTHER_IMAGE: dict[str, Any] = {"spec": {"runtime": {"image": "example.test/epd:2"}}}
"""A change that starts a new revision."""

Phase = Callable[[World], Awaitable[None]]


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    """Status of a pod with a waiting container."""
    return _container({"waiting": {"reason": reason, "message": message}}, **more)


def _container(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    container = {"name": "main", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": state, **more}
    return {"phase": "Pending", "containerStatuses": [container]}


def _scheduled(status: dict[str, Any]) -> dict[str, Any]:
    """The status of a pod that has had a node for long, and whose kubelet has not started a container."""
    conditions = [("PodScheduled", "True"), ("PodReadyToStartContainers", "False"), ("Initialized", "True")]
    since = "2026-01-01T00:00:00Z"
    return status | {"conditions": [{"type": t, "status": s, "lastTransitionTime": since} for t, s in conditions]}


ENDED = {"terminated": {"exitCode": 1, "reason": "Error"}}
BLOCKED = "Scheduling is blocked due to non-empty scheduling gates"
INSUFFICIENT = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."

POD_PROBLEMS: dict[str, dict[str, Any]] = {
    "ImagePullFailed": waiting("ImagePullBackOff", "not found"),
    "ContainerConfigInvalid": waiting("CreateContainerConfigError", 'secret "token" not found'),
    "CrashLooping": waiting("CrashLoopBackOff", lastState=ENDED),
    "ContainerRestarted": _container({"running": {}}, lastState=ENDED),
    "Unschedulable": {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPU"}]
    },
    "NodeLost": {
        "phase": "Running",
        "conditions": [{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"}],
    },
    "VolumeNotReady": _scheduled(_container({"waiting": {"reason": "ContainerCreating"}})),
    "SandboxFailed": _scheduled(_container({"waiting": {"reason": "ContainerCreating"}})),
    "ContainerNotReady": {
        "phase": "Running",
        "containerStatuses": [
            {"name": name, "ready": ready, "restartCount": 0, "image": "i", "imageID": "", "state": {"running": {}}}
            for name, ready in (("main", True), ("istio-proxy", False))
        ],
    },
    "SchedulingGated": {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": BLOCKED}]
    },
    "PodsFailed": {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no device"},
}

POD_EVENTS: dict[str, tuple[str, str]] = {
    "VolumeNotReady": (
        "FailedMount",
        'MountVolume.SetUp failed for volume "company-ca" : configmap "company-ca" not found',
    ),
    "SandboxFailed": (
        "FailedCreatePodSandBox",
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "
        '"no-such-handler" is configured',
    ),
}
"""Reasons and texts of the Events that report these problems, as a kubelet of Kubernetes 1.36 wrote them."""


async def until(world: World, reason: str) -> None:
    """Reconcile until the condition Ready has the reason."""

    async def reached() -> bool:
        await world.reconcile()
        return bool((await world.conditions())["Ready"]["reason"] == reason)

    await eventually(reached, state=world.conditions)


async def pods(world: World, component: str) -> list[dict[str, Any]]:
    """Pods of a stage."""
    selector = f"epd.dev/deployment=qwen,app.kubernetes.io/component={component}"
    return await world.cluster.list(POD, namespace=world.namespace, selector=selector)


def report_status(world: World, pod: dict[str, Any], status: dict[str, Any]) -> None:
    """Report the status of a pod, as its kubelet would."""
    path = f"/api/v1/namespaces/{world.namespace}/pods/{pod['metadata']['name']}/status"
    answer = world.server.client.request("PATCH", path, {"status": status}, content_type=STRATEGIC)
    assert answer.ok or answer.status == 404, answer.message


def report_event(world: World, pod: dict[str, Any], *, reason: str, message: str) -> None:
    """Write an Event about a pod, as its kubelet would."""
    about = {"kind": "Pod", **{key: pod["metadata"][key] for key in ("name", "namespace", "uid")}}
    body = {
        "metadata": {"generateName": "pod-"}, "involvedObject": about, "source": {"component": "kubelet"},
        "type": "Warning", "reason": reason, "message": message, "lastTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    answer = world.server.client.create(f"/api/v1/namespaces/{world.namespace}/events", body)
    assert answer.ok, answer.message


def patch(world: World, body: dict[str, Any]) -> None:
    """Patch the object, as the user would."""
    path = f"{PRIMARIES.format(world.namespace)}/qwen"
    answer = world.server.client.request("PATCH", path, body, content_type=MERGE)
    assert answer.ok, answer.message


async def not_yet_seen(world: World) -> None:
    world.create(raw_spec("Aggregated"))


async def starting(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await until(world, "PodsStarting")


async def waiting_for_the_encoder(world: World) -> None:
    world.create(raw_spec())
    await until(world, "PodsStarting")
    stages = (await world.find(EPD_DEPLOYMENT, "qwen"))["status"]["stages"]
    assert "WaitingForEncoder" in [stage.get("reason") for stage in stages]


async def ready(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await run_all(world)


async def run_all(world: World) -> None:
    """Act as kubelets on which all pods run."""

    async def all_run() -> bool:
        await world.reconcile()
        if (await world.conditions())["Ready"]["status"] == "True":
            return True
        for component in ("frontend", "worker"):
            for pod in await pods(world, component):
                if not is_ready(pod):
                    report_status(world, pod, RUNNING)
        return False

    await eventually(all_run, state=world.conditions)


async def stale(world: World) -> None:
    await ready(world)
    patch(world, {"spec": {"worker": {"replicas": 3}}})


async def rolling_out(world: World) -> None:
    await ready(world)
    patch(world, {"spec": {"worker": {"args": ["--enforce-eager"]}}})
    await until(world, "RollingOut")

    async def has_new_pod() -> bool:
        return any(not is_ready(pod) for pod in await pods(world, "worker"))

    await eventually(has_new_pod, state=world.conditions)


async def rolled_out(world: World) -> None:
    await rolling_out(world)
    await run_all(world)


async def rolling_out_in_vain(world: World) -> None:
    await rolling_out(world)
    await _report_problem(world, "CrashLooping")


async def changed_to_a_missing_image(world: World) -> None:
    await ready(world)
    patch(world, ANOTHER_IMAGE)
    await _report_problem(world, "ImagePullFailed")


async def _served(world: World) -> None:
    """Needs a world without controllers, as everything that depends on the reports of single Deployments."""
    world.create(raw_spec("Aggregated"))
    await world.settle()
    await _report_all_ready(world)
    await until(world, "AllStagesReady")


async def _report_all_ready(world: World) -> None:
    for deployment in await world.cluster.list(DEPLOYMENT, namespace=world.namespace):
        await world.report_ready(deployment["metadata"]["name"])


async def revision_starting(world: World) -> None:
    """The Service is that of an operator before revisions: it selects the frontends of all of them."""
    await _served(world)
    service = f"/api/v1/namespaces/{world.namespace}/services/qwen"
    unlabelled = {"spec": {"selector": {"epd.dev/revision": None}}}
    assert world.server.client.request("PATCH", service, unlabelled, content_type=MERGE).ok
    patch(world, ANOTHER_IMAGE)
    await until(world, "RevisionStarting")


async def revision_verifying(world: World) -> None:
    await _served(world)
    patch(world, ANOTHER_IMAGE)
    await world.settle()
    await _report_all_ready(world)
    await until(world, "RevisionVerifying")


async def verification_failed(world: World) -> None:
    await _verified(world, passes=False, reason="VerificationFailed")


class _Canary:
    """Stands for the requests of the operator to the workers of the revision that serves."""

    def findings(self, _key: Key, *, identity: Identity) -> Findings:  # noqa: ARG002
        return Findings(revision=INITIAL_REVISION, doubtful="1 of 2 answers of pod worker-0: expected Paris, got Rome")

    def update(self, _key: Key, *, rollout: Rollout, observation: Observation) -> None:
        pass

    def forget(self, _key: Key) -> None:
        pass


async def wrong_answers(world: World) -> None:
    await _served(world)
    await Reconciler(world.cluster, canary=_Canary()).reconcile(Key(world.namespace, "qwen"))


async def revision_removing(world: World) -> None:
    await _verified(world, passes=True, reason="RevisionRemoving")


async def revision_sharing(world: World) -> None:
    await _shared(world, fails=False, reason="RevisionSharing")


async def revision_returned(world: World) -> None:
    await _shared(world, fails=True, reason="RevisionReturned")


async def _shared(world: World, *, fails: bool, reason: str) -> None:
    """The new revision gets half of the traffic, and answers with errors or not."""
    await _served(world)
    steps = [{"trafficPercent": 50, "pauseSeconds": 3600}]
    patch(world, {"spec": {"rollout": {"steps": steps}, **ANOTHER_IMAGE["spec"]}})
    reconciler = Reconciler(world.cluster, verification=Verifier(passes=True), comparer=Comparer(fails=fails))

    async def reached() -> bool:
        await reconciler.reconcile(Key(world.namespace, "qwen"))
        await _report_all_ready(world)
        return bool((await world.conditions())["Ready"]["reason"] == reason)

    await eventually(reached, state=world.conditions)


async def _verified(world: World, *, passes: bool, reason: str) -> None:
    """The new revision has an answer for the operator, or not."""
    await revision_verifying(world)
    reconciler = Reconciler(world.cluster, verification=Verifier(passes=passes, message="HTTP 500: no weights"))

    async def reached() -> bool:
        await reconciler.reconcile(Key(world.namespace, "qwen"))
        return bool((await world.conditions())["Ready"]["reason"] == reason)

    await eventually(reached, state=world.conditions)


async def rollout_paused(world: World) -> None:
    await _served(world)
    patch(world, {"spec": {"rollout": {"paused": True}, **ANOTHER_IMAGE["spec"]}})
    await until(world, "RolloutPaused")


async def rollout_blocked(world: World) -> None:
    await rolling_out(world)
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": INSUFFICIENT}

    async def blocked() -> bool:
        await world.reconcile()
        for pod in await pods(world, "worker"):
            if not is_ready(pod):
                report_status(world, pod, {"conditions": [waiting]})
        return bool((await world.conditions())["Ready"]["reason"] == "RolloutBlocked")

    await eventually(blocked, state=world.conditions)


async def scaling_up(world: World) -> None:
    await ready(world)
    patch(world, {"spec": {"worker": {"replicas": 3}}})
    await until(world, "PodsStarting")


async def scaling_down(world: World) -> None:
    """Needs a world without controllers, which would finish it at once."""
    world.create(raw_spec("Aggregated"))
    await world.settle()
    for stage in ("frontend", "worker"):
        await world.report_ready(f"qwen-{stage}")
    await world.settle()
    patch(world, {"spec": {"worker": {"replicas": 1}}})
    await world.reconcile()
    live = await world.find(DEPLOYMENT, "qwen-worker")
    counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), 2)
    status = {"observedGeneration": live["metadata"]["generation"], **counts}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "status": status}
    body["metadata"] = {"name": "qwen-worker", "namespace": world.namespace}
    await world.cluster.apply(DEPLOYMENT, body=body, field_manager="nodes", subresource="status")
    await until(world, "ScalingDown")


async def all_workers_lost(world: World) -> None:
    await ready(world)
    lost = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False"}]
    for pod in await pods(world, "worker"):
        report_status(world, pod, {"conditions": lost})
    await until(world, "PodsStarting")

    async def is_unavailable() -> bool:
        await world.reconcile()
        return bool((await world.conditions())["Available"]["status"] == "False")

    await eventually(is_unavailable, state=world.conditions)


def with_problem(reason: str) -> Phase:
    """The phase in which the pods of a new object have a problem."""

    async def reach(world: World) -> None:
        await starting(world)
        await _report_problem(world, reason)

    return reach


async def _report_problem(world: World, reason: str) -> None:
    """Act as kubelets on which a worker that is not ready has a problem."""

    async def reported() -> bool:
        await world.reconcile()
        if (await world.conditions())["Ready"]["reason"] == reason:
            return True
        for pod in await pods(world, "worker"):
            if not is_ready(pod):
                report_status(world, pod, POD_PROBLEMS[reason])
                if reason in POD_EVENTS:
                    event, message = POD_EVENTS[reason]
                    report_event(world, pod, reason=event, message=message)
                break
        return False

    await eventually(reported, state=world.conditions)


async def refused_by_a_quota(world: World) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    assert world.server.client.create(f"/api/v1/namespaces/{world.namespace}/resourcequotas", quota).ok
    world.create(raw_spec("Aggregated"))
    await until(world, "PodsRefused")


async def progress_deadline_exceeded(world: World) -> None:
    """Needs a world without controllers, because the deadline is more than ten minutes away."""
    world.create(raw_spec("Aggregated"))
    await world.settle()
    live = await world.find(DEPLOYMENT, "qwen-worker")
    message = 'ReplicaSet "qwen-worker-1a2b" has timed out progressing.'
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": message}
    status = {"observedGeneration": live["metadata"]["generation"], "replicas": 2, "updatedReplicas": 2}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "status": {**status, "conditions": [late]}}
    body["metadata"] = {"name": "qwen-worker", "namespace": world.namespace}
    await world.cluster.apply(DEPLOYMENT, body=body, field_manager="nodes", subresource="status")
    await until(world, "ProgressDeadlineExceeded")


async def name_taken(world: World) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "qwen"}, "spec": {"ports": [{"port": 80}]}}
    assert world.server.client.create(f"/api/v1/namespaces/{world.namespace}/services", service).ok
    world.create(raw_spec("Aggregated"))
    await until(world, "NameTaken")


async def child_refused(world: World) -> None:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    world.create(raw_spec("Aggregated", podTemplate={"affinity": affinity}))
    await until(world, "ChildRefused")


async def spec_invalid(world: World) -> None:
    """As with an operator that is older than the object's CRD: no real spec that the server accepts is invalid."""
    world.create(raw_spec("Aggregated"))

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("spec.worker: this version does not know it")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("epd_operator.reconcile.reconciler.make_plan", refuse)
        await until(world, "SpecInvalid")


async def waiting_for_removal(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    child = f"/api/v1/namespaces/{world.namespace}/services/qwen"
    hold = {"metadata": {"finalizers": ["example.test/hold"]}}
    assert world.server.client.request("PATCH", child, hold, content_type=MERGE).ok
    assert world.server.client.request("DELETE", child).ok
    assert world.server.client.request("DELETE", f"{PRIMARIES.format(world.namespace)}/qwen").ok
    world.create(raw_spec("Aggregated"))
    await until(world, "WaitingForRemoval")


async def being_deleted(world: World) -> None:
    await ready(world)
    patch(world, {"metadata": {"finalizers": ["example.test/hold"]}})
    assert world.server.client.request("DELETE", f"{PRIMARIES.format(world.namespace)}/qwen").ok
    await world.reconcile()

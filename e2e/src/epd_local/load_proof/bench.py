"""The deployment under load: its layouts, changes of it, and what is seen of its pods."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from epd_local.cluster.api import ApiClient
from epd_local.cluster.nodes import GPU_RESOURCE
from epd_local.demo.deployment import COMPONENT_LABEL, DEPLOYMENT_LABEL, Deployment, example
from epd_local.demo.installation import SYSTEM_NAMESPACE
from epd_local.errors import LocalClusterError
from epd_local.progress import say, wait_until

PATIENCE = 900.0
"""Time limit of every wait, in seconds."""
STAGES = ("frontend", "worker", "group", "encoder", "pd")
POLL_SECONDS = 2.0
DRAIN_SECONDS = 180


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What is served.

    Attributes:
        topology: as in the names of the examples.
        replicas: of the stages that have more than one.
        migration_limit: how often a request may move to another worker.
    """

    topology: str
    replicas: tuple[tuple[str, int], ...] = ()
    migration_limit: int = 0

    def manifest(self) -> dict[str, Any]:
        """The example of the topology with these replicas."""
        document: dict[str, Any] = yaml.safe_load(example(self.topology).read_text())
        # Long answers take longer while pods start on the same processors.
        document["spec"]["drain"]["timeoutSeconds"] = DRAIN_SECONDS
        for stage, number in self.replicas:
            document["spec"][stage]["replicas"] = number
        if self.migration_limit:
            document["spec"]["frontend"]["migrationLimit"] = self.migration_limit
        return document

    def matches(self, spec: Mapping[str, Any]) -> bool:
        """Whether a live spec has this layout."""
        wanted = self.manifest()["spec"]
        if self.migration_limit != spec.get("frontend", {}).get("migrationLimit", 0):
            return False
        return wanted["topology"] == spec.get("topology") and all(
            wanted[stage].get("replicas", 1) == (spec.get(stage) or {}).get("replicas", 1)
            for stage in STAGES
            if stage in wanted
        )


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The deployment under load.

    Attributes:
        deployment: changed with kubectl.
        api: for what is read often: each kubectl is a process, which takes time from the pods.
        folder: for its manifests.
    """

    deployment: Deployment
    api: ApiClient
    folder: Path

    def get(self) -> dict[str, Any]:
        """The object."""
        return self.api.get(f"/apis/epd.dev/v1alpha1/namespaces/{self._namespace}/epddeployments/{self._name}")

    def pods(self, component: str | None = None) -> list[dict[str, Any]]:
        """Pods of the deployment, or of one stage."""
        labels = {DEPLOYMENT_LABEL: self._name} | ({COMPONENT_LABEL: component} if component else {})
        selector = urllib.parse.quote(",".join(f"{key}={value}" for key, value in labels.items()))
        found = self.api.get(f"/api/v1/namespaces/{self._namespace}/pods?labelSelector={selector}")
        return list(found["items"])

    @property
    def _name(self) -> str:
        return self.deployment.name

    @property
    def _namespace(self) -> str:
        return self.deployment.namespace

    def replace(self, layout: Layout) -> None:
        """Replace the spec by that of a layout."""
        path = self.write(layout)
        self.deployment.kubectl.run("replace", "--namespace", self._namespace, "-f", str(path))

    def write(self, layout: Layout) -> Path:
        """Write the manifest of a layout."""
        path = self.folder / f"{layout.topology}.yaml"
        path.write_text(yaml.safe_dump(layout.manifest()))
        return path

    def patch(self, spec: Mapping[str, Any]) -> None:
        """Merge into the spec."""
        patch = json.dumps({"spec": spec})
        words = ("patch", "epd", self._name, "-n", self._namespace, "--type", "merge", "-p", patch)
        self.deployment.kubectl.run(*words)

    def spec(self) -> dict[str, Any]:
        """The live spec."""
        return dict(self.get()["spec"])

    def wait(self, condition: Callable[[], object], *, what: str) -> None:
        """Wait until a condition holds. An API server that does not answer for a time ends no wait.

        Raises:
            LocalClusterError: it never does.
        """

        def holds() -> bool:
            try:
                return bool(condition())
            except LocalClusterError as error:
                say(f"while waiting for {what}: {error}")
                return False

        if not wait_until(holds, seconds=PATIENCE, interval=1.0):
            status = json.dumps(self.get().get("status", {}), indent=1)
            raise LocalClusterError(f"after {PATIENCE:.0f} s still waiting for: {what}\n{status}")

    def is_settled(self) -> bool:
        """Whether one revision is left, everything of it is ready, and no pod terminates."""
        found, pods = self.get(), self.pods()
        status = found.get("status", {})
        conditions = {c["type"]: c["status"] for c in status.get("conditions", ())}
        return (
            status.get("observedGeneration") == found.get("metadata", {}).get("generation")
            and conditions.get("Ready") == "True"
            and conditions.get("Reconciling", "False") == "False"
            and [r["state"] for r in status.get("revisions", ())] == ["Serving"]
            and not any(pod["metadata"].get("deletionTimestamp") for pod in pods)
        )

    def settle(self) -> None:
        """Wait until nothing changes any more."""
        self.wait(self.is_settled, what="the end of the change")

    def pod(self, component: str) -> dict[str, Any]:
        """The first pod of a stage."""
        return sorted(self.pods(component), key=lambda pod: str(pod["metadata"]["name"]))[0]

    def kill(self, component: str) -> None:
        """Kill the main process of a pod of a stage, and wait until its container has restarted and all is ready."""
        name = self.pod(component)["metadata"]["name"]
        path = f"/api/v1/namespaces/{self._namespace}/pods/{name}:9400/proxy/status"
        before = self.restarts(name)
        (process,) = json.loads(self.deployment.kubectl.raw(path))["processes"]
        self.deployment.kubectl.run(
            "exec", name, "-n", self._namespace, "--", "busybox", "kill", "-9", str(process["pid"])
        )
        self.wait(lambda: self.restarts(name) > before, what=f"the restart of {name}")
        self.settle()

    def restarts(self, name: str) -> int:
        """How often the containers of a pod have restarted."""
        found = next((p for p in self.pods() if p["metadata"]["name"] == name), {})
        return sum(c["restartCount"] for c in found.get("status", {}).get("containerStatuses", ()))

    def drain(self, node: str) -> None:
        """``kubectl drain`` a node, wait until all is ready elsewhere, and make it schedulable again."""
        kubectl = self.deployment.kubectl
        try:
            kubectl.run(
                "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", f"--timeout={PATIENCE:.0f}s"
            )
            self.settle()
        finally:
            kubectl.run("uncordon", node)

    def kill_operator(self) -> None:
        """End the operator without a grace period."""
        self.deployment.kubectl.run(
            "delete", "pod", "-n", SYSTEM_NAMESPACE, "-l", "app.kubernetes.io/name=epd-operator",
            "--force", "--grace-period=0",
        )  # fmt: skip


class Peak:
    """Watches how many GPUs and pods the deployment uses at the same time, until the block is left."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.gpus = self.pods = self.first_gpus = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            try:
                self._add(self._bench.pods())
            except LocalClusterError as error:
                say(f"the pods could not be counted: {error}")
            if self._stopped.wait(POLL_SECONDS):
                return

    def _add(self, pods: list[dict[str, Any]]) -> None:
        present = [p for p in pods if p.get("status", {}).get("phase") not in ("Succeeded", "Failed")]
        gpus = sum(map(gpus_of, present))
        self.first_gpus = self.first_gpus or gpus
        self.gpus, self.pods = max(self.gpus, gpus), max(self.pods, len(present))


def gpus_of(pod: Mapping[str, Any]) -> int:
    """GPUs that a pod has; none before it has a node."""
    if not pod["spec"].get("nodeName"):
        return 0
    limits = [c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"]]
    return sum(int(limit.get(GPU_RESOURCE, 0)) for limit in limits)

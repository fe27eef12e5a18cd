"""One EPDDeployment on the local cluster: apply it, wait for it, read its pods."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epd_local.demo.kubectl import Kubectl
from epd_local.errors import CommandFailedError, LocalClusterError
from epd_local.locations import REPOSITORY
from epd_local.progress import say

DEPLOYMENT_LABEL = "epd.dev/deployment"
COMPONENT_LABEL = "app.kubernetes.io/component"
TOPOLOGIES = ("aggregated", "colocated", "disaggregated")
POLL_SECONDS = 1.0
HEARTBEAT_SECONDS = 20.0


def example(topology: str) -> Path:
    """The example manifest of a topology."""
    return REPOSITORY / "examples" / "local" / f"{topology}.yaml"


@dataclass(frozen=True)
class Deployment:
    """An EPDDeployment by name."""

    kubectl: Kubectl
    name: str = "tiny"
    namespace: str = "default"

    def apply(self, manifest: Path) -> None:
        """``kubectl apply`` the manifest."""
        self.kubectl.run("apply", "--namespace", self.namespace, "-f", str(manifest))

    def delete(self) -> None:
        """Delete the object and wait until it no longer exists."""
        self.kubectl.run("delete", "epd", self.name, "--namespace", self.namespace, "--ignore-not-found")

    def get(self) -> dict[str, Any] | None:
        """The object, or None."""
        found: dict[str, Any] | None = self.kubectl.get("epd", self.name, "--namespace", self.namespace)
        return found

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition of the object, or an empty mapping."""
        found = self.get() or {}
        conditions = found.get("status", {}).get("conditions", ())
        return next((c for c in conditions if c["type"] == kind), {})

    def pods(self, component: str | None = None) -> list[dict[str, Any]]:
        """Pods of the deployment, or of one stage."""
        selector = f"{DEPLOYMENT_LABEL}={self.name}"
        if component is not None:
            selector += f",{COMPONENT_LABEL}={component}"
        return self.kubectl.items("pods", "--namespace", self.namespace, "-l", selector)

    def leftovers(self) -> list[str]:
        """Everything in the namespace that belongs to the deployment."""
        kinds = (
            "deployments,replicasets,controllerrevisions.apps,pods,services,serviceaccounts,rolebindings,"
            "networkpolicies,pdb"
        )
        found = self.kubectl.items(kinds, "--namespace", self.namespace, "-l", f"{DEPLOYMENT_LABEL}={self.name}")
        return [f"{item['kind']}/{item['metadata']['name']}" for item in found]

    def metrics(self, pod: str, *, port: int) -> str:
        """A metrics page of a pod, through the API server."""
        return self.kubectl.raw(f"/api/v1/namespaces/{self.namespace}/pods/{pod}:{port}/proxy/metrics")

    def wait_ready(self, *, seconds: float) -> None:
        """Wait for the condition Ready of the current generation, and report every change.

        Raises:
            LocalClusterError: it is not ready in time; the message has the reason.
        """
        began = reported_at = time.monotonic()
        reported = ""
        while True:
            found = self.get() or {}
            status = found.get("status", {})
            ready: dict[str, Any] = next((c for c in status.get("conditions", ()) if c["type"] == "Ready"), {})
            current = bool(ready) and ready.get("observedGeneration") == found["metadata"]["generation"]
            line = "the operator has not observed the manifest yet"
            if current:
                line = f"{status['summary']} - {ready['reason']}: {ready['message']}"
            now = time.monotonic()
            if line != reported or now - reported_at >= HEARTBEAT_SECONDS:
                say(f"{now - began:4.0f} s  {line}")
                reported, reported_at = line, now
            if current and ready["status"] == "True":
                return
            if now - began > seconds:
                raise LocalClusterError(
                    f"{self.name} is not ready after {seconds:.0f} s: {line}\n{self.unready_logs()}"
                )
            time.sleep(POLL_SECONDS)

    def unready_logs(self, *, lines: int = 25) -> str:
        """The ends of the logs of pods that are not ready, for error messages."""
        texts = []
        for pod in self.pods():
            statuses = pod.get("status", {}).get("containerStatuses", ())
            if statuses and all(c["ready"] for c in statuses):
                continue
            name = pod["metadata"]["name"]
            try:
                log = self.kubectl.run(
                    "logs", name, "--namespace", self.namespace, "--all-containers", f"--tail={lines}"
                )
            except CommandFailedError as error:
                log = str(error)
            texts.append(f"--- {name}\n{log}")
        return "\n".join(texts)

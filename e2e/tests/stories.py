"""What several stories do: wait, remove, look at the operator."""

from __future__ import annotations

from collections.abc import Callable

from epd_local.demo.deployment import Deployment
from epd_local.demo.installation import SYSTEM_NAMESPACE, Installation
from epd_local.demo.proof import total
from epd_local.progress import wait_until

PATIENCE = 300.0
"""Bound of every wait, in seconds: generous, since it only decides when a broken thing counts as broken."""


def eventually(condition: Callable[[], object], *, what: Callable[[], object]) -> None:
    """Wait until a condition holds; ``what`` describes the state if it never does."""
    assert wait_until(lambda: bool(condition()), seconds=PATIENCE, interval=0.5), what()


def remove(deployment: Deployment) -> None:
    """Delete a deployment and wait until nothing of it is left."""
    deployment.delete()
    eventually(lambda: not deployment.leftovers(), what=deployment.leftovers)


def operator_pod(installation: Installation) -> str:
    """Name of the operator's pod."""
    found = installation.kubectl.items("pods", "-n", SYSTEM_NAMESPACE, "-l", "app.kubernetes.io/name=epd-operator")
    (name,) = [pod["metadata"]["name"] for pod in found if not pod["metadata"].get("deletionTimestamp")]
    return str(name)


def operator_metric(installation: Installation, name: str) -> float:
    """Sum of one of the operator's own metrics."""
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods/{operator_pod(installation)}:8080/proxy/metrics"
    return total(installation.kubectl.raw(path), name)

"""Helpers of the tests: wait, remove, read the state of the operator."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import yaml

from epd_local.demo.chat import Endpoint, RequestRefusedError
from epd_local.demo.deployment import Deployment, example
from epd_local.demo.installation import SYSTEM_NAMESPACE, Installation
from epd_local.demo.proof import total
from epd_local.progress import wait_until

PATIENCE = 900.0
"""Time limit of every wait, in seconds. It only ends a broken run, so it is long."""

Serve = Callable[[Path], Deployment]
"""Serves the deployment of a manifest on this machine, and returns it when it is ready."""


CLIENT_SECONDS = 30.0
"""After this time a client gives up. A worker that is lost with its node never answers."""


class Clients:
    """Clients that ask until the block is left, each the next one after the answer to the last."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        count: int,
        image: str | None = None,
        timeout: float = CLIENT_SECONDS,
        pause: float = 0.0,
    ) -> None:
        self._endpoint = endpoint
        self._image = image
        self._timeout = timeout
        self._pause = pause
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]
        self.answered = 0
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def state(self) -> str:
        """A description for the message of a failed test."""
        return f"{self.answered} answers, {len(self.errors)} errors, the last: {self.errors[-1:]}"

    def _ask(self) -> None:
        while not self._stopped.is_set():
            try:
                self._endpoint.ask(
                    "Say hello.", max_tokens=64, image=self._image, timeout=self._timeout, ignore_eos=True
                )
                self.answered += 1
                self._stopped.wait(self._pause)
            except RequestRefusedError as error:
                self.errors.append(str(error))
                self._stopped.wait(1)


def eventually(condition: Callable[[], object], *, what: Callable[[], object]) -> None:
    """Wait until a condition holds; ``what`` describes the state if it never does."""
    assert wait_until(lambda: bool(condition()), seconds=PATIENCE, interval=0.5), what()


def is_ready(deployment: Deployment) -> bool:
    """Whether the condition Ready is True."""
    return bool(deployment.condition("Ready").get("status") == "True")


def remove(deployment: Deployment) -> None:
    """Delete a deployment and wait until all its objects are deleted."""
    deployment.delete()
    eventually(lambda: not deployment.leftovers(), what=deployment.leftovers)


def manifest(folder: Path, *, name: str, change: Callable[[dict[str, Any]], object] = lambda _: None) -> Path:
    """The aggregated example under another name and with a change."""
    document = yaml.safe_load(example("aggregated").read_text())
    document["metadata"]["name"] = name
    change(document["spec"])
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def operator_pods(installation: Installation) -> list[dict[str, Any]]:
    """The operator's pods that are not terminating."""
    found = installation.kubectl.items("pods", "-n", SYSTEM_NAMESPACE, "-l", "app.kubernetes.io/name=epd-operator")
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def lease(installation: Installation) -> dict[str, Any]:
    """The spec of the Lease that elects the leader among the operator's pods."""
    found = installation.kubectl.get("lease", "epd-operator", "-n", SYSTEM_NAMESPACE)
    return dict(found["spec"]) if found else {}


def operator_pod(installation: Installation) -> str:
    """Name of the operator's pod that is the leader."""
    names = [pod["metadata"]["name"] for pod in operator_pods(installation)]
    holder = str(lease(installation).get("holderIdentity", "")).rpartition("_")[0]
    if len(names) > 1:
        names = [name for name in names if name == holder]
    (name,) = names
    return str(name)


def operator_metric(installation: Installation, name: str) -> float:
    """Sum of one of the operator's own metrics."""
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods/{operator_pod(installation)}:8080/proxy/metrics"
    return total(installation.kubectl.raw(path), name)

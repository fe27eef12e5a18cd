"""A cluster to scrape: real pods on a real API server, whose addresses are loopback addresses with recorded pages.

The pods are created from the operator's own pod templates, so that their labels and ports are the real ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Self

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import Identity, Key
from epd_operator.plan.pods.process import HTTP_PORT, SYSTEM_PORT, TELEMETRY_PORT
from epd_operator.plan.stages.plan_stages import plan_stages
from monitoring.operator_metrics import OperatorMetrics
from monitoring.pages import PageServer, recorded
from support.apiserver import ApiServer
from support.processes import free_ports
from support.specs import spec

SYSTEM = "epd-system"
OBJECTS = {
    Key("shop", "qwen"): "Disaggregated",
    Key("shop", "duo"): "CoLocated",
    Key("lab", "solo"): "Aggregated",
}
ENCODERS_PER_GROUP = 2
"""The default."""


@dataclass(frozen=True, kw_only=True)
class FakePod:
    """A pod and its pages by port."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    spec: Mapping[str, Any]
    pages: Mapping[int, Callable[[], bytes]]
    stage: StageName | None = None


@dataclass
class Fleet:
    """Three EPDDeployments, one per topology, and an operator; a context manager."""

    server: ApiServer
    moment: str = "early"
    addresses: dict[str, str] = field(default_factory=dict)
    metrics_port: int = field(default_factory=lambda: free_ports(1)[0])

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self.operator = OperatorMetrics({key: (OBJECTS[key], _counts(key)) for key in OBJECTS})
        self.operator.work()
        for namespace in {SYSTEM, *(key.namespace for key in OBJECTS)}:
            self._create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            # No controller that would create it is running.
            account = {"metadata": {"name": "default"}}
            self._create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
        try:
            for number, pod in enumerate(self.pods(), start=1):
                self._start(pod, host=f"127.77.{os.getpid() % 250}.{number}")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def pods(self) -> Iterator[FakePod]:
        """All pods. The operator's port is found by its name, so it can be any free port."""
        labels = {"app.kubernetes.io/name": "epd-operator", "app.kubernetes.io/instance": "epd-operator"}
        port = {"name": "metrics", "containerPort": self.metrics_port}
        yield FakePod(
            namespace=SYSTEM,
            name="epd-operator-0",
            labels=labels,
            spec={"containers": [{"name": "operator", "image": "x", "ports": [port]}]},
            pages={self.metrics_port: self.operator.page},
        )
        for key, topology in OBJECTS.items():
            identity = Identity(name=key.name, namespace=key.namespace, uid="1")
            for stage in plan_stages(spec(topology), identity=identity):
                template = stage.pod_template
                yield FakePod(
                    namespace=key.namespace,
                    name=f"{key.name}-{stage.name}-0",
                    labels=template["metadata"]["labels"],
                    spec={**template["spec"], "serviceAccountName": "default"},
                    pages=self._pages(stage.name),
                    stage=stage.name,
                )

    def page(self, name: str) -> Callable[[], bytes]:
        """A recorded page at the fleet's current moment."""
        return lambda: recorded(name, self.moment)

    def _pages(self, stage: StageName) -> dict[int, Callable[[], bytes]]:
        if stage is StageName.FRONTEND:
            return {HTTP_PORT: self.page("frontend")}
        processes = {StageName.ENCODER: ["encoder"], StageName.GROUP: ["encoder"] * ENCODERS_PER_GROUP + ["pd"]}
        pages = {}
        for slot, name in enumerate(processes.get(stage, ["pd"])):
            pages[SYSTEM_PORT + slot] = self.page(name)
            if stage is not StageName.WORKER:
                # A single process transfers nothing.
                pages[TELEMETRY_PORT + slot] = self.page(f"{name}-nixl")
        return pages

    def _start(self, pod: FakePod, *, host: str) -> None:
        self.addresses[pod.name] = host
        for port, page in pod.pages.items():
            serving = PageServer(host=host, port=port, page=page)
            serving.start()
            self._stack.callback(serving.stop)
        pods = f"/api/v1/namespaces/{pod.namespace}/pods"
        metadata = {"name": pod.name, "labels": dict(pod.labels)}
        self._create(pods, {"metadata": metadata, "spec": dict(pod.spec)})
        status = {
            "phase": "Running",
            "podIP": host,
            "podIPs": [{"ip": host}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        merge = "application/merge-patch+json"
        patched = self.server.client.request(
            "PATCH", f"{pods}/{pod.name}/status", {"status": status}, content_type=merge
        )
        assert patched.ok, patched.message

    def _create(self, path: str, body: dict[str, Any]) -> None:
        answer = self.server.client.create(path, body)
        assert answer.ok or answer.status == 409, answer.message


def _counts(key: Key) -> dict[StageName, int]:
    identity = Identity(name=key.name, namespace=key.namespace, uid="1")
    return {stage.name: 1 for stage in plan_stages(spec(OBJECTS[key]), identity=identity)}

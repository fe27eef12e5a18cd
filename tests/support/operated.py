"""One namespace of a real API server, and an operator that reconciles on request."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from epd_operator.cluster.client import Cluster, Request, connect
from epd_operator.objects.identity import Key
from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT, Kind
from epd_operator.reconcile.reconciler import Reconciler
from support.apiserver import ApiServer

PRIMARIES = "/apis/epd.dev/v1alpha1/namespaces/{}/epddeployments"
READS = ("GET", "LIST")


class World:
    """One namespace of a real API server, and an operator that reconciles on request."""

    def __init__(self, server: ApiServer, *, cluster: Cluster, namespace: str, requests: Counter[str]) -> None:
        self.server = server
        self.cluster = cluster
        self.namespace = namespace
        self.requests = requests

    def create(self, spec: dict[str, Any], name: str = "qwen") -> dict[str, Any]:
        body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": name}, "spec": spec}
        answer = self.server.client.create(PRIMARIES.format(self.namespace), body)
        assert answer.ok, answer.message
        return answer.body

    async def reconcile(self, name: str = "qwen") -> list[str]:
        """Reconcile once; returns the writes as verb and kind."""
        self.requests.clear()
        await Reconciler(self.cluster).reconcile(Key(self.namespace, name))
        return sorted(r for r, n in self.requests.items() for _ in range(n) if not r.startswith(READS))

    async def settle(self, name: str = "qwen") -> None:
        """Reconcile until nothing is written, as events would cause it."""
        for _ in range(20):
            if not await self.reconcile(name):
                return
        raise AssertionError(f"still writing after 20 reconciles: {self.requests}")

    async def find(self, kind: Kind, name: str) -> dict[str, Any]:
        found = await self.cluster.get(kind, namespace=self.namespace, name=name)
        assert found is not None, f"{kind.kind} {name}"
        return found

    async def conditions(self, name: str = "qwen") -> dict[str, dict[str, Any]]:
        found = await self.find(EPD_DEPLOYMENT, name)
        return {c["type"]: c for c in found["status"]["conditions"]}

    async def report_ready(self, name: str) -> None:
        """Report all pods of a Deployment as ready, as the nodes would."""
        live = await self.find(DEPLOYMENT, name)
        replicas = live["spec"]["replicas"]
        counts = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
        status = {"observedGeneration": live["metadata"]["generation"], **dict.fromkeys(counts, replicas)}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "status": status}
        body["metadata"] = {"name": name, "namespace": self.namespace}
        await self.cluster.apply(DEPLOYMENT, body=body, field_manager="nodes", subresource="status")


@asynccontextmanager
async def new_world(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    namespace = f"test-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    assert server.client.create("/api/v1/namespaces", body).ok
    requests: Counter[str] = Counter()

    def count(request: Request) -> None:
        requests[f"{request.verb} {request.kind}"] += 1

    async with connect(on_request=count) as cluster:
        yield World(server, cluster=cluster, namespace=namespace, requests=requests)

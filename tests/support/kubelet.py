"""Stand-ins for the kubelets of an API server without nodes, and for a Prometheus with the load of the pods."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.client import Client

UNREACHABLE = "198.51.100.7"
"""From TEST-NET-2: an address of a pod that never answers."""


def run_pods(client: Client, namespace: str) -> None:
    """Report every pod as running and ready, and remove terminating pods."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for pod in client.get(pods).body["items"]:
        path = f"{pods}/{pod['metadata']['name']}"
        if pod["metadata"].get("deletionTimestamp"):
            client.request("DELETE", f"{path}?gracePeriodSeconds=0")
        elif pod["status"].get("phase") != "Running":
            conditions = [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]
            status = {
                "phase": "Running",
                "podIP": UNREACHABLE,
                "podIPs": [{"ip": UNREACHABLE}],
                "conditions": conditions,
            }
            body = {"status": status}
            content_type = "application/strategic-merge-patch+json"
            client.request("PATCH", f"{path}/status", body, content_type=content_type)


def hold_pods(client: Client, namespace: str) -> None:
    """Report that every pod has had a node for long, and that its kubelet has started no container."""
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    body = {"status": {"phase": "Pending", "conditions": [scheduled]}}
    for pod in client.get(f"/api/v1/namespaces/{namespace}/pods").body["items"]:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/status"
        client.request("PATCH", path, body, content_type="application/strategic-merge-patch+json")


@dataclass
class Prometheus:
    """Answers queries of the operator with one load for every encoder and 0 for the others."""

    url: str = ""
    load: float = 0
    queries: list[str] = field(default_factory=list)

    def answer(self, query: str) -> Mapping[str, Any]:
        """The matrix for the pods in the query."""
        self.queries.append(query)
        (pods,) = re.findall(r'pod=~"([^"]*)"', query)
        now = time.time()
        series = [self._series(pod, name, labels, now) for pod in pods.split("|") for name, labels in _SERIES]
        return {"status": "success", "data": {"resultType": "matrix", "result": series}}

    def _series(self, pod: str, name: str, labels: Mapping[str, str], now: float) -> Mapping[str, Any]:
        load = self.load if name == _IN_FLIGHT else 0
        return {"metric": {"__name__": name, "pod": pod, **labels}, "values": [[now, str(load)]]}


_IN_FLIGHT = "dynamo_component_inflight_requests"
_SERIES: tuple[tuple[str, dict[str, str]], ...] = (
    (_IN_FLIGHT, {"dynamo_component": "encode", "dynamo_endpoint": "generate"}),
    ("dynamo_work_handler_queue_depth", {}),
)


@contextmanager
def prometheus() -> Iterator[Prometheus]:
    """Such a server on a loopback port."""
    state = Prometheus()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            (query,) = parse_qs(urlsplit(self.path).query)["query"]
            body = json.dumps(state.answer(query)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

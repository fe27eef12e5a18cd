"""The path of requests, from the metrics of the pods: encoder requests and embedding bytes moved by NIXL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from epd_local.demo.deployment import COMPONENT_LABEL, Deployment
from epd_local.errors import CommandFailedError

SYSTEM_PORT = 9090
TELEMETRY_PORT = 19090
_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([0-9.eE+-]+)(?: [0-9]+)?$")


@dataclass(frozen=True)
class RequestPath:
    """Counters along the path of requests, summed over pods.

    Attributes:
        encoder_requests: requests that reached an encoder.
        worker_requests: requests that reached a worker or PD process.
        embedding_bytes: bytes that NIXL moved between processes.
    """

    encoder_requests: int = 0
    worker_requests: int = 0
    embedding_bytes: int = 0

    def since(self, before: RequestPath) -> RequestPath:
        """The difference to an earlier reading."""
        return RequestPath(
            encoder_requests=self.encoder_requests - before.encoder_requests,
            worker_requests=self.worker_requests - before.worker_requests,
            embedding_bytes=self.embedding_bytes - before.embedding_bytes,
        )


def read_path(deployment: Deployment) -> RequestPath:
    """Read the counters of all ready workers."""
    encoder_requests = worker_requests = embedding_bytes = 0
    for pod, ports in worker_ports(deployment):
        for port in ports:
            page = deployment.metrics(pod, port=port)
            encoder_requests += int(total(page, "dynamo_component_requests_total", component="encode"))
            worker_requests += int(total(page, "dynamo_component_requests_total", component="backend"))
            embedding_bytes += _nixl_bytes(deployment, pod=pod, port=TELEMETRY_PORT + port - SYSTEM_PORT)
    return RequestPath(
        encoder_requests=encoder_requests, worker_requests=worker_requests, embedding_bytes=embedding_bytes
    )


def total(page: str, name: str, *, component: str | None = None) -> float:
    """Sum of the samples of a metric on a page; with a Dynamo component, only those of its ``generate`` endpoint."""
    found = 0.0
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if match is None or match[1] != name:
            continue
        labels = match[2] or ""
        wanted = (f'dynamo_component="{component}"', 'dynamo_endpoint="generate"')
        if component is None or all(label in labels for label in wanted):
            found += float(match[3])
    return found


def worker_ports(deployment: Deployment) -> Iterable[tuple[str, list[int]]]:
    """The ready pods without frontends, and the metrics ports of their processes."""
    for pod in deployment.pods():
        if pod["metadata"]["labels"].get(COMPONENT_LABEL) == "frontend" or not _is_ready(pod):
            continue
        ports = [
            port["containerPort"]
            for container in pod["spec"]["containers"]
            for port in container.get("ports", ())
            if port.get("name", "").startswith("system")
        ]
        yield pod["metadata"]["name"], ports


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _nixl_bytes(deployment: Deployment, *, pod: str, port: int) -> int:
    """Received bytes; a process has no NIXL page before its first transfer."""
    try:
        page = deployment.metrics(pod, port=port)
    except CommandFailedError:
        return 0
    return int(total(page, "agent_rx_bytes_total"))

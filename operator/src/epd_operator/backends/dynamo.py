"""Dynamo 1.6: frontends, discovery with Kubernetes, communication between processes, and metrics.

The flags are from ``python -m dynamo.frontend --help``, and the names of the metrics from real metrics pages.
"""

from __future__ import annotations

import json
from enum import StrEnum


class Role(StrEnum):
    """Role of a Dynamo process."""

    FRONTEND = "frontend"
    WORKER = "worker"
    ENCODER = "encoder"
    PD = "pd"


ROUTER_MODES = {
    "RoundRobin": ("round-robin",),
    "Random": ("random",),
    "PowerOfTwo": ("power-of-two",),
    "LeastLoaded": ("least-loaded",),
    "DeviceAwareWeighted": ("device-aware-weighted",),
    "Direct": ("direct",),
    "KV": ("kv",),
    "KVApproximate": ("kv", "--no-router-kv-events"),
}
"""Dynamo's router modes and further flags, by their names in the API (``frontend.routing``).

https://docs.nvidia.com/dynamo/v1.6.1/knowledge-base/modular-components/router/router-guide
"""
_EVENT_ROUTINGS = frozenset({"KV"})

FRONTEND_FLAGS = {
    "--router-mode": "set frontend.routing",
    "--router-kv-events": "set frontend.routing to KV or to KVApproximate",
    "--kv-events": "set frontend.routing to KV or to KVApproximate",
    "--migration-limit": "set frontend.migrationLimit",
    "--http-host": "remove it; the frontend listens on all addresses of its pod",
    "--http-port": "set frontend.service.port, which is the port that clients use",
    "--metrics-prefix": "remove it; the operator reads metrics by their names",
}
RUNTIME_FLAGS = dict.fromkeys(
    (
        "--namespace",
        "--namespace-prefix",
        "--endpoint",
        "--discovery-backend",
        "--request-plane",
        "--response-plane",
        "--event-plane",
    ),
    "remove it; it decides which processes communicate, and only the operator sets it",
)
"""Flags of all Dynamo processes that decide which processes communicate with each other."""

OWNED_VARIABLE_PREFIXES = (
    "POD_",
    "EPD_",
    "DYN_NAMESPACE",
    "DYN_SYSTEM_",
    "DYN_TCP_RPC_",
    "DYN_HTTP_SVC_",
)
"""Besides what the operator sets: the ports and paths of Dynamo's servers, which launcher and operator read."""
OWNED_VARIABLES = (
    "CONTAINER_NAME",
    "DYN_DISCOVERY_BACKEND",
    "DYN_KUBE_DISCOVERY_MODE",
    "DYN_ENDPOINT",
    "DYN_REQUEST_PLANE",
    "DYN_RESPONSE_PLANE",
    "DYN_EVENT_PLANE",
    "DYN_SELF_HOST_METADATA",
    "DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS",
    "DYN_DISABLE_FRONTEND_ADMIN_API",
    # The same as owned flags, in dynamo/frontend/frontend_args.py.
    "DYN_HTTP_HOST",
    "DYN_HTTP_PORT",
    "DYN_MODEL_NAME",
    "DYN_MODEL_PATH",
    "DYN_ROUTER_MODE",
    "DYN_ROUTER_USE_KV_EVENTS",
    "DYN_MIGRATION_LIMIT",
    # The operator reads metrics by their names.
    "DYN_METRICS_PREFIX",
)
"""All other variables of Dynamo can be set by users, for example DYN_HTTP_BODY_LIMIT_MB."""

DEFAULT_VARIABLES = {
    # In Dynamo 32 MiB. Images in data URLs travel twice in a message, which a worker drops if it is longer:
    # https://github.com/ai-dynamo/dynamo/issues/14794. 512 MiB hold any request of the size below.
    "DYN_TCP_MAX_MESSAGE_SIZE": str(512 * 1024**2),
    # Longest request that a frontend accepts, in MB: ten photographs of 10 MB in base64 have 133 MB.
    "DYN_HTTP_BODY_LIMIT_MB": "192",
}
"""Limits of all Dynamo processes. Users can set other values."""
FRONTEND_DEFAULT_VARIABLES = {
    # Otherwise a frontend writes a line for every request to its HTTP server, also for those of the launcher (one per
    # second) and of readers of its metrics. Requests to the model have lines of dynamo_llm::http::service::metrics too.
    # https://docs.nvidia.com/dynamo/v1.6.0/reference/observability/logging
    "DYN_LOG": "info,dynamo_llm::http::service::service_v2=warn",
}
"""The same for frontends only."""

DISCOVERY_LABELS = {
    "nvidia.com/dynamo-discovery-backend": "kubernetes",
    "nvidia.com/dynamo-discovery-enabled": "true",
}
"""Dynamo's discovery in container mode watches pods with both labels."""

POD_FIELDS = {
    "POD_NAME": "metadata.name",
    "POD_NAMESPACE": "metadata.namespace",
    "POD_UID": "metadata.uid",
    "POD_IP": "status.podIP",
}
"""Variables with fields of the pod, which Dynamo writes into discovery."""

ACTIVE_REQUESTS = "dynamo_frontend_active_requests"
SERVED_REQUESTS = "dynamo_frontend_requests_total"
SERVER_ERRORS = ("internal", "overload", "response_timeout", "unavailable")
"""Values of its label ``error_type`` for requests that failed because of the server (dynamo/prometheus_names.py)."""
DISCONNECTED_CLIENTS = "dynamo_frontend_disconnected_clients"
"""Every frontend exports it from its start, so it identifies the page of a frontend."""
TIME_TO_FIRST_TOKEN = "dynamo_frontend_time_to_first_token_seconds"  # noqa: S105 - name of a metric
INTER_TOKEN_LATENCY = "dynamo_frontend_inter_token_latency_seconds"  # noqa: S105
IN_FLIGHT_REQUESTS = "dynamo_component_inflight_requests"
PICKUP_QUEUE = "dynamo_work_handler_queue_depth"
REQUEST_SECONDS = "dynamo_component_request_duration_seconds"
INSTANCE_LABEL = "worker_id"
"""Label of all metrics of a process with the hexadecimal number of its instance in discovery."""

INSTANCE_HEADER = "X-Dynamo-Worker-Instance-Id"
"""Header of a request that names the instance of the worker that must answer, as a decimal number. Seen with Dynamo
1.6.1 and the router modes round-robin and kv: a frontend answers with status 400 if it does not know the instance.
``DYN_DISABLE_FRONTEND_NVEXT`` makes it ignore the header and the field below:
https://docs.nvidia.com/dynamo/v1.6.0/reference/cli/frontend"""
TELL_WORKER = {"nvext": {"extra_fields": ["worker_id"]}}
"""Field of a request with which the answer contains the instance of the worker, ``nvext.worker_id``."""


def needs_kv_events(routing: str) -> bool:
    """Whether the router learns from events of the workers what each has cached. Without events it sees load only."""
    return routing in _EVENT_ROUTINGS


def frontend_command(*, namespace: str, port: int, routing: str, migration_limit: int, args: list[str]) -> list[str]:
    """The command line of a frontend; ``routing`` is a key of ``ROUTER_MODES``."""
    # Without --http-host: the launcher sets DYN_HTTP_HOST to the address for IPv4 and IPv6, if the node has both.
    command = ["python3", "-m", "dynamo.frontend", "--http-port", str(port)]
    command += ["--namespace", namespace, "--router-mode", *ROUTER_MODES[routing]]
    if migration_limit:  # 0 is the default of Dynamo.
        command += ["--migration-limit", str(migration_limit)]
    return [*command, *args]


def pod_environment(*, namespace: str) -> dict[str, str]:
    """Variables for all Dynamo processes of a pod.

    By default, Dynamo derives the host from the pod's name or the default route, which is wrong on nodes with several
    networks. Kubernetes expands ``$(POD_IP)``.
    """
    return {
        "DYN_NAMESPACE": namespace,
        "DYN_DISCOVERY_BACKEND": "kubernetes",
        "DYN_KUBE_DISCOVERY_MODE": "container",
        "DYN_REQUEST_PLANE": "tcp",
        "DYN_EVENT_PLANE": "zmq",
        "DYN_TCP_RPC_HOST": "$(POD_IP)",
        "DYN_SYSTEM_HOST": "127.0.0.1",
        # Otherwise frontends would fetch the configuration of the model from the system server of a worker. With 0,
        # they read it from the same place as workers.
        "DYN_SELF_HOST_METADATA": "0",
    }


def process_environment(*, discovery_name: str, system_port: int) -> dict[str, str]:
    """A process's name in discovery, and the port of its system server."""
    return {"CONTAINER_NAME": discovery_name, "DYN_SYSTEM_PORT": str(system_port)}


def role_environment(role: Role) -> dict[str, str]:
    """Variables that differ between frontends and engines."""
    # The preStop hook waits for in-flight requests before SIGTERM is sent, so Dynamo need not wait again.
    shutdown = {"DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS": "0"}
    if role is Role.FRONTEND:
        # Otherwise clients of the endpoint could change the load at which workers count as busy (POST /busy_threshold).
        return {**shutdown, "DYN_DISABLE_FRONTEND_ADMIN_API": "true"}
    # Otherwise /health of an encoder always answers with status 503 (seen with Dynamo 1.6.1, which logs that this
    # variable is deprecated): an encoder registers no request for health checks.
    return {**shutdown, "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS": json.dumps(["generate"])}

"""Dynamo processes: the command and environment of each role (Dynamo 1.6 with the vLLM backend).

Flags and variables are those of ``python -m dynamo.frontend --help`` and ``python -m dynamo.vllm --help``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from epd_operator.api.v1alpha1.common import EnvVar
from epd_operator.api.v1alpha1.deployment import EPDDeploymentSpec, TransferMode
from epd_operator.api.v1alpha1.stages import MediaDecoding, Routing
from epd_operator.plan.identity import Identity

HTTP_PORT = 8000
SYSTEM_PORT = 9090
"""Metrics of the first process of a pod, handed out by the launcher; further processes count up."""
ENGINE_PORT = 9190
"""Dynamo's system server of the first process of a pod; further processes count up. It has health and metrics, but it
takes commands from everybody as well, such as to sleep: it listens inside the pod only."""
SIDE_CHANNEL_PORT = 20097
"""NIXL's handshake port of the first process of a pod; further processes count up."""
TELEMETRY_PORT = 19090
"""NIXL's transfer metrics of the first process of a pod; further processes count up."""
CACHE_FOLDER = "/var/cache/worker"

_TRANSFER_MODES = {TransferMode.NIXL_READ: "nixl-read", TransferMode.NIXL_WRITE: "nixl-write"}
_ROUTER_MODES = {
    Routing.ROUND_ROBIN: "round-robin",
    Routing.RANDOM: "random",
    Routing.POWER_OF_TWO: "power-of-two",
    Routing.LEAST_LOADED: "least-loaded",
    Routing.KV: "kv",
}


class Role(StrEnum):
    """What a Dynamo process does."""

    FRONTEND = "frontend"
    WORKER = "worker"
    ENCODER = "encoder"
    PD = "pd"


@dataclass(frozen=True, kw_only=True)
class Process:
    """One Dynamo process of a pod.

    Attributes:
        container: name by which Dynamo's discovery knows the process within its pod.
        slot: place among the pod's processes; ports count up with it.
    """

    role: Role
    container: str
    slot: int
    command: list[str]
    env: list[dict[str, object]] = field(default_factory=list)

    @property
    def system_port(self) -> int:
        """Port where the process's metrics can be read from outside of the pod."""
        return SYSTEM_PORT + self.slot

    @property
    def relayed_port(self) -> int | None:
        """The same where the launcher has to hand them out; a frontend has its own on its HTTP port."""
        return None if self.role is Role.FRONTEND else self.system_port

    @property
    def health_url(self) -> str:
        """Where the process says whether it serves."""
        return f"http://127.0.0.1:{self._own_port}/health"

    @property
    def models_url(self) -> str | None:
        """Where a frontend lists models: it is healthy before it knows a worker, but cannot answer."""
        return f"http://127.0.0.1:{HTTP_PORT}/v1/models" if self.role is Role.FRONTEND else None

    @property
    def metrics_url(self) -> str:
        """Where the process counts its requests."""
        return f"http://127.0.0.1:{self._own_port}/metrics"

    @property
    def _own_port(self) -> int:
        return HTTP_PORT if self.role is Role.FRONTEND else ENGINE_PORT + self.slot


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What distinguishes one vLLM process from another of the same deployment."""

    gpus: int = 1
    embedding_cache: str | None = None
    gpu_memory_percent: int | None = None
    args: tuple[str, ...] = ()


def frontend_command(spec: EPDDeploymentSpec, *, identity: Identity) -> list[str]:
    """Command of a frontend."""
    command = ["python3", "-m", "dynamo.frontend", "--http-host", "0.0.0.0", "--http-port", str(HTTP_PORT)]  # noqa: S104
    command += ["--namespace", identity.dynamo_namespace]
    command += ["--router-mode", _ROUTER_MODES[spec.frontend.routing]]
    return command + list(spec.frontend.args or ())


def engine_command(spec: EPDDeploymentSpec, *, role: Role, options: EngineOptions) -> list[str]:
    """Command of a worker, encoder or PD process."""
    command = ["python3", "-m", "dynamo.vllm", "--model", spec.model.name]
    command += ["--served-model-name", spec.model.served_name or spec.model.name, "--enable-multimodal"]
    if role is Role.ENCODER:
        command += ["--disaggregation-mode", "encode"]
    if role is Role.PD:
        command += ["--disaggregation-mode", "pd", "--route-to-encoder", "--enable-mm-embeds"]
    if spec.frontend.media_decoding is MediaDecoding.FRONTEND:
        command.append("--frontend-decoding")
    if options.gpus > 1:
        command += ["--tensor-parallel-size", str(options.gpus)]
    if options.embedding_cache is not None:
        command += ["--multimodal-embedding-cache-capacity-gb", options.embedding_cache.removesuffix("Gi")]
    if options.gpu_memory_percent is not None:
        command += ["--gpu-memory-utilization", f"{options.gpu_memory_percent / 100:.2f}"]
    return command + list(spec.runtime.args or ()) + list(options.args)


def pod_environment(spec: EPDDeploymentSpec, *, identity: Identity) -> list[dict[str, object]]:
    """Environment that all processes of a pod share: identity, discovery and transfer.

    Dynamo and vLLM would otherwise guess the host from the pod's name or the default route, which is wrong on nodes
    with several networks. Kubernetes expands ``$(POD_IP)``.
    """
    fields = {
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "POD_UID": "metadata.uid",
        "POD_IP": "status.podIP",
    }
    fixed = {
        "DYN_NAMESPACE": identity.dynamo_namespace,
        "DYN_DISCOVERY_BACKEND": "kubernetes",
        "DYN_KUBE_DISCOVERY_MODE": "container",
        "DYN_REQUEST_PLANE": "tcp",
        "DYN_EVENT_PLANE": "zmq",
        "DYN_TCP_RPC_HOST": "$(POD_IP)",
        "DYN_SYSTEM_HOST": "127.0.0.1",
        # Frontends would fetch the model's configuration from that server. Without it they read it where workers do.
        "DYN_SELF_HOST_METADATA": "0",
        "VLLM_HOST_IP": "$(POD_IP)",
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "$(POD_IP)",
        "UCX_TLS": ",".join(spec.transfer.ucx.transports),
        "HOME": CACHE_FOLDER,
        "XDG_CACHE_HOME": CACHE_FOLDER,
    }
    if spec.transfer.ucx.devices:
        fixed["UCX_NET_DEVICES"] = ",".join(spec.transfer.ucx.devices)
    env: list[dict[str, object]] = [
        {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
        for name, path in fields.items()
    ]
    env += literals(fixed)
    if spec.model.token_secret is not None:
        reference = spec.model.token_secret.model_dump(by_alias=True, exclude_none=True, mode="json")
        env.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    return env


def literals(values: Mapping[str, str]) -> list[dict[str, object]]:
    """Environment variables with literal values."""
    return [{"name": name, "value": value} for name, value in values.items()]


def process_environment(spec: EPDDeploymentSpec, *, role: Role, container: str, slot: int) -> list[dict[str, object]]:
    """Environment of one process: its name for discovery and ports of its own."""
    env = {
        "CONTAINER_NAME": container,
        "DYN_SYSTEM_PORT": str(ENGINE_PORT + slot),
        "DYN_VLLM_EMBEDDING_TRANSFER_MODE": _TRANSFER_MODES[spec.transfer.mode],
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(SIDE_CHANNEL_PORT + slot),
        "NIXL_TELEMETRY_ENABLE": "y",
        "NIXL_TELEMETRY_EXPORTER": "prometheus",
        "NIXL_TELEMETRY_PROMETHEUS_PORT": str(TELEMETRY_PORT + slot),
        # The drain hook has waited for in-flight requests before SIGTERM arrives: no second wait inside Dynamo.
        "DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS": "0",
    }
    if role is not Role.FRONTEND:
        # Without it /health of a vLLM worker answers 503 for ever.
        env["DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS"] = json.dumps(["generate"])
    else:
        # Who may ask the model could else set from when on a worker counts as busy (POST /busy_threshold).
        env["DYN_DISABLE_FRONTEND_ADMIN_API"] = "true"
    return literals(env)


def user_environment(*lists: list[EnvVar] | None) -> list[dict[str, object]]:
    """Variables of the user, later lists over earlier ones, in order of first appearance."""
    merged: dict[str, dict[str, object]] = {}
    for variables in lists:
        for variable in variables or ():
            merged[variable.name] = variable.model_dump(by_alias=True, exclude_none=True, mode="json")
    return list(merged.values())

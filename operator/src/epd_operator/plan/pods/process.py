"""The Dynamo processes of a pod: ports, command and environment of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from epd_operator.api.v1alpha1.env import EnvVar
from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec
from epd_operator.api.v1alpha1.network import Network
from epd_operator.api.v1alpha1.pod_template import CACHE_PATH
from epd_operator.api.v1alpha1.stages import MediaDecoding
from epd_operator.backends import dynamo
from epd_operator.backends.backend import Backend, EngineSettings
from epd_operator.backends.dynamo import Role
from epd_operator.backends.registry import BACKENDS
from epd_operator.objects.identity import Identity
from epd_operator.objects.paths import normal
from epd_operator.plan.devices.transfer import ucx_environment

HTTP_PORT = 8000
"""The OpenAI-compatible API of a frontend, and its metrics."""
SYSTEM_PORT = 9090
"""Metrics of the first process of a pod, served by the launcher; each further process uses the next port."""
SYSTEM_PORT_NAME = "system"
"""Name of the container port of the metrics, if the pod has one process."""
GROUP_SYSTEM_PORT_NAME = SYSTEM_PORT_NAME + "-{slot}"
"""The same for each process of a group; `slot` is the number of the process."""
ENGINE_PORT = 9190
"""Dynamo's system server of the first process of a pod; each further process uses the next port. It accepts
unauthenticated commands, such as to sleep, so it listens inside the pod only."""
SIDE_CHANNEL_PORT = 20097
"""NIXL's handshake port of the first process of a pod; each further process uses the next port."""
TELEMETRY_PORT = 19090
"""NIXL's transfer metrics of the first process of a pod; each further process uses the next port."""
KV_EVENTS_PORT = 20197
"""vLLM's events about the KV cache of the first process of a pod; each further process uses the next port."""

HUB_CACHE_VARIABLES = ("HF_HOME", "HF_HUB_CACHE")
"""Where the Hugging Face library has its cache:
https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """One Dynamo process of a pod.

    Attributes:
        role: its role: frontend, worker, encoder or PD.
        discovery_name: its name for Dynamo's discovery, unique in the pod.
        slot: its number in the pod, from 0; it is added to the base of each port.
        command: its command line.
        env: variables of this process only.
    """

    role: Role
    discovery_name: str
    slot: int
    command: list[str]
    env: list[dict[str, object]] = field(default_factory=list)

    @property
    def system_port(self) -> int:
        """Port on which other pods can read the metrics of the process."""
        return SYSTEM_PORT + self.slot

    @property
    def relayed_port(self) -> int | None:
        """The same port, if the launcher serves it; None for a frontend, which serves metrics on its HTTP port."""
        return None if self.role is Role.FRONTEND else self.system_port

    @property
    def health_url(self) -> str:
        """URL of the health check of the process."""
        return f"http://127.0.0.1:{self._local_port}/health"

    @property
    def models_url(self) -> str | None:
        """URL where a frontend lists its models: without a worker it is healthy, but cannot answer requests."""
        return f"http://127.0.0.1:{HTTP_PORT}/v1/models" if self.role is Role.FRONTEND else None

    @property
    def metrics_url(self) -> str:
        """URL of the metrics of the process, inside the pod."""
        return f"http://127.0.0.1:{self._local_port}/metrics"

    @property
    def _local_port(self) -> int:
        return HTTP_PORT if self.role is Role.FRONTEND else ENGINE_PORT + self.slot


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Options of one engine process, in addition to those of the deployment."""

    gpus: int = 1
    embedding_cache: str | None = None
    gpu_memory_percent: int | None = None
    local_encoders: bool = False
    args: tuple[str, ...] = ()


def backend_of(spec: EPDDeploymentSpec) -> Backend:
    """The engine that ``runtime.framework`` names."""
    return BACKENDS[spec.runtime.framework]


def frontend_command(spec: EPDDeploymentSpec, *, identity: Identity, revision: str) -> list[str]:
    """Command of a frontend."""
    return dynamo.frontend_command(
        namespace=identity.dynamo_namespace(revision),
        port=HTTP_PORT,
        routing=spec.frontend.routing,
        migration_limit=spec.frontend.migration_limit,
        args=list(spec.frontend.args or ()),
    )


def engine_command(spec: EPDDeploymentSpec, *, role: Role, slot: int, options: EngineOptions) -> list[str]:
    """Command of a worker, encoder or PD process."""
    cache = options.embedding_cache
    settings = EngineSettings(
        role=role,
        model=spec.model.name,
        served_name=spec.model.served_name or spec.model.name,
        frontend_decoding=spec.frontend.media_decoding is MediaDecoding.FRONTEND,
        gpus=options.gpus,
        embedding_cache_gib=None if cache is None else int(cache.removesuffix("Gi")),
        gpu_memory_percent=options.gpu_memory_percent,
        local_encoders=options.local_encoders,
        kv_events_port=KV_EVENTS_PORT + slot if dynamo.needs_kv_events(spec.frontend.routing) else None,
        args=(*(spec.runtime.args or ()), *options.args),
    )
    return backend_of(spec).command(settings)


def pod_environment(
    spec: EPDDeploymentSpec, *, identity: Identity, revision: str, network: Network
) -> list[dict[str, object]]:
    """Environment that all processes of a pod share: identity, discovery, transfer and home folder."""
    ucx = ucx_environment(network)
    # The order is part of the pod template: a new order would replace all pods when the operator is upgraded.
    fixed = {
        **dynamo.pod_environment(namespace=identity.dynamo_namespace(revision)),
        **backend_of(spec).pod_environment,
        "UCX_TLS": ucx["UCX_TLS"],
        "HOME": CACHE_PATH,
        "XDG_CACHE_HOME": CACHE_PATH,
        **ucx,
    }
    env: list[dict[str, Any]] = [
        {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
        for name, path in dynamo.POD_FIELDS.items()
    ]
    env += literals({**fixed, **dynamo.DEFAULT_VARIABLES})
    if _has_hub_cache_on_volume(spec):
        # The volume is read-only, but the hub library writes locks and new revisions into its cache unless downloads
        # are off: https://github.com/huggingface/huggingface_hub/issues/2797.
        env += literals({"HF_HUB_OFFLINE": "1"})
    if spec.model.token_secret is not None:
        reference = spec.model.token_secret.model_dump(by_alias=True, exclude_none=True, mode="json")
        env.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    return env


def _has_hub_cache_on_volume(spec: EPDDeploymentSpec) -> bool:
    """Whether runtime.env places the cache of Hugging Face on the volume of model.storage."""
    if spec.model.storage is None:
        return False
    root = normal(spec.model.storage.mount_path)
    return any(
        variable.name in HUB_CACHE_VARIABLES and normal(variable.value or ".").is_relative_to(root)
        for variable in spec.runtime.env or ()
    )


def process_environment(
    spec: EPDDeploymentSpec, *, role: Role, discovery_name: str, slot: int
) -> list[dict[str, object]]:
    """Environment of one process: its name for discovery and its own ports."""
    return literals(
        {
            **dynamo.process_environment(discovery_name=discovery_name, system_port=ENGINE_PORT + slot),
            **backend_of(spec).process_environment(spec.transfer.mode, SIDE_CHANNEL_PORT + slot),
            "NIXL_TELEMETRY_ENABLE": "y",
            "NIXL_TELEMETRY_EXPORTER": "prometheus",
            "NIXL_TELEMETRY_PROMETHEUS_PORT": str(TELEMETRY_PORT + slot),
            **dynamo.role_environment(role),
            **(dynamo.FRONTEND_DEFAULT_VARIABLES if role is Role.FRONTEND else {}),
        }
    )


def literals(values: Mapping[str, str]) -> list[dict[str, object]]:
    """Environment variables with literal values."""
    return [{"name": name, "value": value} for name, value in values.items()]


def user_environment(*lists: list[EnvVar] | None) -> list[dict[str, object]]:
    """Variables from the spec, in the order of their first appearance; later lists override earlier ones."""
    merged: dict[str, dict[str, object]] = {}
    for variables in lists:
        for variable in variables or ():
            merged[variable.name] = variable.model_dump(by_alias=True, exclude_none=True, mode="json")
    return list(merged.values())

"""The pod template: the parts that are the same for the pods of all stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec
from epd_operator.api.v1alpha1.pod_template import CACHE_PATH, PodTemplate, ResourceRequirements
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.backends.dynamo import DISCOVERY_LABELS
from epd_operator.objects.identity import Identity, StageKey
from epd_operator.objects.paths import normal
from epd_operator.plan.devices.gpu import Placement
from epd_operator.plan.devices.transfer import rdma_limits, security_context
from epd_operator.plan.pods.launcher import CONTROL_PORT, DRAIN_COMMAND

SHUTDOWN_SECONDS = 30
"""Time between SIGTERM and SIGKILL for a drained process."""
PROBE_PERIOD_SECONDS = 2
WORKER_USER = 1000


@dataclass(frozen=True, kw_only=True)
class ContainerPlan:
    """A container before the parts that all containers share are added."""

    name: str
    command: list[str]
    env: list[dict[str, Any]] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)
    owns_devices: bool = False
    resources: ResourceRequirements | None = None


class PodBuilder:
    """Builds the pod template of one stage."""

    def __init__(
        self,
        spec: EPDDeploymentSpec,
        *,
        identity: Identity,
        stage: StageKey,
        placement: Placement,
        template: PodTemplate | None,
    ) -> None:
        self._spec = spec
        self._identity = identity
        self._stage = stage
        self._placement = placement
        self._templates = [t for t in (spec.pod_template, template) if t is not None]

    def build(self, containers: list[ContainerPlan]) -> dict[str, Any]:
        """The template: metadata and spec. The last of several containers is the default container of kubectl."""
        metadata: dict[str, Any] = {
            "labels": {**self._merged("labels"), **self._identity.workload_labels(self._stage), **DISCOVERY_LABELS}
        }
        annotations = self._merged("annotations")
        if len(containers) > 1:
            annotations = {"kubectl.kubernetes.io/default-container": containers[-1].name, **annotations}
        if annotations:
            metadata["annotations"] = annotations
        return {"metadata": metadata, "spec": self._pod_spec(containers)}

    def _pod_spec(self, containers: list[ContainerPlan]) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "serviceAccountName": self._identity.account_name,
            # Kubernetes would add variables for every Service of the namespace. One for a Service called vllm,
            # VLLM_PORT=tcp://..., ends the engine: https://docs.vllm.ai/en/latest/configuration/env_vars/.
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": self._spec.drain.timeout_seconds + SHUTDOWN_SECONDS,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": WORKER_USER,
                "fsGroup": WORKER_USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [self._container(container) for container in containers],
            "volumes": self._volumes(),
        }
        spec.update(self._placement.scheduling())
        if self._spec.runtime.image_pull_secrets:
            spec["imagePullSecrets"] = [{"name": s.name} for s in self._spec.runtime.image_pull_secrets]
        affinity = self._placement.affinity(self._last_set("affinity"))
        if affinity is not None:
            spec["affinity"] = affinity
        for name in ("priority_class_name", "runtime_class_name"):
            value = self._last_set(name)
            if value is not None:
                spec[_camel_case(name)] = value
        return spec

    def _container(self, plan: ContainerPlan) -> dict[str, Any]:
        """One container: the launcher answers its probes and drains it before SIGTERM."""
        ready = {"httpGet": {"path": f"/ready/{plan.name}", "port": CONTROL_PORT}}
        probe = {"periodSeconds": PROBE_PERIOD_SECONDS, "timeoutSeconds": 3}
        gpus = self._placement.gpus if plan.owns_devices else 0
        container: dict[str, Any] = {
            "name": plan.name,
            "image": self._last_set("image") or self._spec.runtime.image,
            "imagePullPolicy": self._spec.runtime.image_pull_policy,
            "command": plan.command,
            "env": _unique("name", plan.env),
            "resources": self._resources(plan),
            "securityContext": security_context(self._spec.transfer, network=self._placement.network, gpus=gpus),
            "readinessProbe": {**ready, **probe, "failureThreshold": 2},
            "lifecycle": {"preStop": {"exec": {"command": DRAIN_COMMAND}}},
            "volumeMounts": self._volume_mounts(),
        }
        if plan.ports:
            container["ports"] = [
                {"name": name, "containerPort": port, "protocol": "TCP"} for name, port in plan.ports.items()
            ]
        if CONTROL_PORT in plan.ports.values():
            container["livenessProbe"] = {
                "httpGet": {"path": "/live", "port": CONTROL_PORT},
                "periodSeconds": 10,
                "timeoutSeconds": 5,
                "failureThreshold": 6,
            }
            if self._stage.name is not StageName.FRONTEND:
                # A frontend loads no model: it waits for workers without a limit. Containers that only provide the
                # identity of a process have no control port, so they are not restarted either.
                failures = max(1, self._spec.runtime.startup_timeout_seconds // PROBE_PERIOD_SECONDS)
                container["startupProbe"] = {**ready, **probe, "failureThreshold": failures}
        return container

    def _resources(self, plan: ContainerPlan) -> dict[str, Any]:
        resources: dict[str, Any] = {}
        if plan.resources is not None:
            resources = plan.resources.model_dump(by_alias=True, exclude_none=True, mode="json")
        if plan.owns_devices:
            rdma = rdma_limits(self._placement.network, gpus=self._placement.gpus)
            devices = {**self._placement.limits(), **rdma}
            if devices:
                resources["limits"] = {**resources.get("limits", {}), **devices}
        return resources

    def _volumes(self) -> list[dict[str, Any]]:
        volumes: list[dict[str, Any]] = [{"name": "epd-cache", "emptyDir": {}}, *self._placement.volumes()]
        if self._spec.model.storage is not None:
            claim = {"claimName": self._spec.model.storage.claim_name, "readOnly": True}
            volumes.append({"name": "epd-model", "persistentVolumeClaim": claim})
        return _unique("name", volumes + [volume for template in self._templates for volume in template.volumes or ()])

    def _volume_mounts(self) -> list[dict[str, Any]]:
        mounts: list[dict[str, Any]] = [{"name": "epd-cache", "mountPath": CACHE_PATH}]
        mounts += self._placement.volume_mounts()
        if self._spec.model.storage is not None:
            mounts.append({"name": "epd-model", "mountPath": self._spec.model.storage.mount_path, "readOnly": True})
        mounts += [mount for template in self._templates for mount in template.volume_mounts or ()]
        return _unique("mountPath", mounts, normalise=normal)

    def _merged(self, name: str) -> dict[str, str]:
        """A map of both pod templates; the stage's template overrides the general one."""
        return {key: value for template in self._templates for key, value in (getattr(template, name) or {}).items()}

    def _last_set(self, name: str) -> Any:
        """A field of the last pod template that sets it: the stage's template overrides the general one."""
        values = [getattr(template, name) for template in self._templates]
        return next((value for value in reversed(values) if value is not None), None)


def _unique(key: str, items: list[dict[str, Any]], *, normalise: Callable[[str], object] = str) -> list[dict[str, Any]]:
    """The items of a list that Kubernetes keeps as a map: of several items with the same key the last is kept."""
    found: dict[object, dict[str, Any]] = {}
    for item in items:
        identity = normalise(item[key])
        found.pop(identity, None)
        found[identity] = item
    return list(found.values())


def _camel_case(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)

"""Parts of pods that users can set, and the names in them that are reserved for the operator."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from epd_operator.api.markers import Int, KubernetesObject, ListMap, PreserveUnknown, Quantity, Rule, is_quantity
from epd_operator.api.v1alpha1.base import (
    ApiModel,
    DnsLabel,
    Image,
    LabelValue,
    ObjectName,
    QualifiedName,
    qualified_keys,
)
from epd_operator.api.v1alpha1.env import EnvVar

__all__ = ["EnvVar", "PodTemplate", "ResourceRequirements", "Toleration", "Volume", "VolumeMount"]


class Toleration(ApiModel):
    """Allows pods on nodes with a matching taint, as in a pod's spec."""

    key: QualifiedName | None = Field(default=None, description="Key of the taint; unset with Exists means any.")
    operator: Literal["Exists", "Equal"] | None = Field(
        default=None, description="Exists matches any value of the taint. Equal, or unset, matches the given value."
    )
    value: LabelValue | None = Field(default=None, description="Value of the taint, for Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint; unset means any."
    )
    toleration_seconds: Annotated[Int, Field(ge=0, le=2147483647)] | None = Field(
        default=None, description="Time that a pod stays on the node after a NoExecute taint is added, in seconds."
    )

    rules = (
        Rule(
            expression="has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            message="a toleration without a key needs operator Exists: set key, or set operator to Exists",
        ),
        Rule(
            expression="!has(self.operator) || self.operator != 'Exists' || !has(self.value)",
            message="operator Exists must not have a value: remove value, or set operator to Equal",
            field_path=".value",
        ),
        Rule(
            expression="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="tolerationSeconds needs effect NoExecute: set effect to NoExecute, or remove tolerationSeconds",
            field_path=".tolerationSeconds",
        ),
    )


def _only_cpu_and_memory(part: str) -> Rule:
    return Rule(
        expression=f"!has(self.{part}) || self.{part}.all(r, r in ['cpu', 'memory', 'ephemeral-storage'] "
        "|| r.startsWith('hugepages-'))",
        message="only cpu, memory, ephemeral-storage and hugepages-* are allowed here: set GPUs by pools[].gpu and "
        "gpusPerReplica, and RDMA devices by transfer.rdmaResource",
        field_path=f".{part}",
    )


class ResourceRequirements(ApiModel):
    """CPU and memory of a container. GPUs come from the pool and gpusPerReplica."""

    requests: Annotated[dict[str, Quantity], Field(max_length=16)] | None = Field(
        default=None, description="Resources that the scheduler reserves."
    )
    limits: Annotated[dict[str, Quantity], Field(max_length=16)] | None = Field(
        default=None, description="Maximum resources of the container."
    )

    rules = (
        _only_cpu_and_memory("requests"),
        _only_cpu_and_memory("limits"),
        Rule(
            expression="!has(self.requests) || !has(self.limits) || self.requests.all(r, !(r in self.limits) "
            f"|| !{is_quantity('self.requests[r]')} || !{is_quantity('self.limits[r]')} "
            "|| quantity(self.requests[r]).compareTo(quantity(self.limits[r])) <= 0)",
            message="a request must not be greater than its limit: lower the request or raise the limit",
            field_path=".requests",
        ),
    )


OWNED_LABEL_PREFIXES = ("epd.dev/", "nvidia.com/dynamo-", "app.kubernetes.io/")
OWNED_ANNOTATION_PREFIXES = ("epd.dev/", "nvidia.com/dynamo-")
OWNED_VOLUME_PREFIX = "epd-"
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108
CACHE_PATH = "/var/cache/worker"
"""Cache and home directory of the processes in a pod."""
OWNED_MOUNT_PATHS = (SHARED_MEMORY_PATH, CACHE_PATH)
"""Mount paths of the operator's own volumes."""
_ACCOUNT_PATH = "run/secrets/kubernetes.io/serviceaccount"
TOKEN_PATHS = (f"/{_ACCOUNT_PATH}", f"/var/{_ACCOUNT_PATH}")
"""The token for discovery: /var/run is a link to /run. Kubernetes does not mount it over a volume at this path."""
NEEDED_PATHS = ("/dev", "/proc", "/sys", *TOKEN_PATHS)
"""Folders that the container runtime and Kubernetes fill, and that every process needs."""

MountPath = Annotated[
    str,
    Field(min_length=1, max_length=256, pattern=r"^/[^:]*$"),
    Rule(
        expression="self != '/' && !self.matches('//|/[.][.]?(/|$)')",
        message="must be a path below /, without '//', '/./' and '/../': set for example /data",
    ),
    Rule(
        expression=f"!(self in {[path + end for path in OWNED_MOUNT_PATHS for end in ('', '/')]})",
        message=f"the operator mounts shared memory at {SHARED_MEMORY_PATH} (see sharedMemory) and a cache at "
        f"{CACHE_PATH}: choose another path, or a path below these",
    ),
    Rule(
        expression=f"!(self in {[path + end for path in NEEDED_PATHS for end in ('', '/')]})",
        message="a volume here would hide devices, /proc, /sys or the token of the pod: choose another path, such as "
        "/data",
    ),
]


class Volume(ApiModel):
    """A volume, as in a pod's spec."""

    name: Annotated[
        DnsLabel,
        Rule(
            expression=f"!self.startsWith('{OWNED_VOLUME_PREFIX}')",
            message="names that start with epd- are reserved for volumes of the operator: choose another name",
        ),
    ] = Field(description="Name of the volume, for volumeMounts. It must not start with epd-.")


class VolumeMount(ApiModel):
    """Mount of a volume, as in a container's spec."""

    name: DnsLabel = Field(description="Name of a volume of this podTemplate or of spec.podTemplate.")
    mount_path: MountPath = Field(description="Absolute path in the containers.")


class PodTemplate(ApiModel):
    """Parts of a pod that users can set. Parts that the operator owns are refused, never changed silently."""

    image: Image | None = Field(default=None, description="Image of these pods, instead of runtime.image.")
    labels: Annotated[dict[str, LabelValue], Field(max_length=32)] | None = Field(
        default=None, description="Additional labels of the pods."
    )
    annotations: Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=32)] | None = Field(
        default=None, description="Annotations of the pods."
    )
    affinity: KubernetesObject | None = Field(default=None, description="Affinity, as in a pod's spec.")
    volumes: (
        Annotated[
            list[Annotated[dict[str, Any], PreserveUnknown(Volume)]],
            Field(max_length=16),
            ListMap(("name",)),
        ]
        | None
    ) = Field(default=None, description="Additional volumes, as in a pod's spec. Their names must not start with epd-.")
    volume_mounts: (
        Annotated[
            list[Annotated[dict[str, Any], PreserveUnknown(VolumeMount)]],
            Field(max_length=32),
            ListMap(("mountPath",)),
        ]
        | None
    ) = Field(default=None, description="Mounts of the volumes, as in a container's spec.")
    priority_class_name: ObjectName | None = Field(default=None, description="Priority class of the pods.")
    runtime_class_name: ObjectName | None = Field(default=None, description="Runtime class of the pods.")

    rules = (
        qualified_keys("labels"),
        qualified_keys("annotations"),
        Rule(
            expression="!has(self.labels) || "
            f"self.labels.all(k, !{list(OWNED_LABEL_PREFIXES)}.exists(p, k.startsWith(p)))",
            message="labels with the prefixes epd.dev/, app.kubernetes.io/ and nvidia.com/dynamo- are set by the "
            "operator: use another prefix",
            field_path=".labels",
        ),
        Rule(
            expression="!has(self.annotations) || "
            f"self.annotations.all(k, !{list(OWNED_ANNOTATION_PREFIXES)}.exists(p, k.startsWith(p)))",
            message="annotations with the prefixes epd.dev/ and nvidia.com/dynamo- are set by the operator: use "
            "another prefix",
            field_path=".annotations",
        ),
    )

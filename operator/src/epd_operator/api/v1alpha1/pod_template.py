"""Parts of pods that users may shape, and what of them belongs to the operator."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from epd_operator.api.markers import Int, KubernetesObject, ListMap, PreserveUnknown, Quantity, Rule
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
    """Lets pods onto nodes with a matching taint, as in a pod's spec."""

    key: QualifiedName | None = Field(default=None, description="Key of the taint; unset with Exists means any.")
    operator: Literal["Exists", "Equal"] | None = Field(
        default=None, description="Exists: any value of the taint. Equal, or unset: the value given here."
    )
    value: LabelValue | None = Field(default=None, description="Value of the taint, for Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint; unset means any."
    )
    toleration_seconds: Annotated[Int, Field(ge=0, le=2147483647)] | None = Field(
        default=None, description="How long a pod stays after a NoExecute taint appeared, in seconds."
    )

    rules = (
        Rule(
            expression="has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            message="a toleration without a key tolerates every taint, and then needs operator Exists: add one of them",
        ),
        Rule(
            expression="!has(self.operator) || self.operator != 'Exists' || !has(self.value)",
            message="operator Exists takes no value: remove the value, or use operator Equal",
            field_path=".value",
        ),
        Rule(
            expression="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="tolerationSeconds needs effect NoExecute: set it, or remove tolerationSeconds",
            field_path=".tolerationSeconds",
        ),
    )


def _only_cpu_and_memory(part: str) -> Rule:
    return Rule(
        expression=f"!has(self.{part}) || self.{part}.all(r, r in ['cpu', 'memory', 'ephemeral-storage'] "
        "|| r.startsWith('hugepages-'))",
        message="only cpu, memory, ephemeral-storage and hugepages-* belong here: GPUs come from pools[].gpu and "
        "gpusPerReplica, RDMA devices from transfer.rdmaResource",
        field_path=f".{part}",
    )


class ResourceRequirements(ApiModel):
    """CPU and memory of a container. GPUs come from the pool and gpusPerReplica."""

    requests: Annotated[dict[str, Quantity], Field(max_length=16)] | None = Field(
        default=None, description="What the scheduler sets aside."
    )
    limits: Annotated[dict[str, Quantity], Field(max_length=16)] | None = Field(
        default=None, description="What the container may use at most."
    )

    rules = (
        _only_cpu_and_memory("requests"),
        _only_cpu_and_memory("limits"),
        Rule(
            expression="!has(self.requests) || !has(self.limits) || self.requests.all(r, !(r in self.limits) "
            "|| quantity(self.requests[r]).compareTo(quantity(self.limits[r])) <= 0)",
            message="a request is above its limit: lower the request or raise the limit",
            field_path=".requests",
        ),
    )


OWNED_LABEL_PREFIXES = ("epd.dev/", "nvidia.com/dynamo-", "app.kubernetes.io/")
OWNED_ANNOTATION_PREFIXES = ("epd.dev/", "nvidia.com/dynamo-")
OWNED_VOLUME_PREFIX = "epd-"
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108
CACHE_PATH = "/var/cache/worker"
"""Cache and home folder of the processes of a pod."""
OWNED_MOUNT_PATHS = (SHARED_MEMORY_PATH, CACHE_PATH)
"""Where the operator mounts volumes of its own."""

MountPath = Annotated[
    str,
    Field(min_length=2, max_length=256, pattern=r"^/[^:]*$"),
    Rule(
        expression=f"!(self in {[path + end for path in OWNED_MOUNT_PATHS for end in ('', '/')]})",
        message=f"the operator mounts shared memory at {SHARED_MEMORY_PATH} (see sharedMemory) and a cache at "
        f"{CACHE_PATH}: choose another path, or one below",
    ),
]


class Volume(ApiModel):
    """A volume, as in a pod's spec."""

    name: Annotated[
        DnsLabel,
        Rule(
            expression=f"!self.startsWith('{OWNED_VOLUME_PREFIX}')",
            message="names that begin with epd- belong to the operator's volumes: choose another name",
        ),
    ] = Field(description="Name by which volumeMounts refer to the volume; it must not begin with epd-.")


class VolumeMount(ApiModel):
    """Where containers see a volume, as in a container's spec."""

    name: DnsLabel = Field(description="Name of a volume of this podTemplate or of spec.podTemplate.")
    mount_path: MountPath = Field(description="Absolute path in the containers.")


class PodTemplate(ApiModel):
    """The parts of a pod that users may shape. What the operator owns is refused, never overridden silently."""

    image: Image | None = Field(default=None, description="Image of these pods, instead of runtime.image.")
    labels: Annotated[dict[str, LabelValue], Field(max_length=32)] | None = Field(
        default=None, description="Further labels of the pods."
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
    ) = Field(default=None, description="Further volumes, as in a pod's spec; their names must not begin with epd-.")
    volume_mounts: (
        Annotated[
            list[Annotated[dict[str, Any], PreserveUnknown(VolumeMount)]],
            Field(max_length=32),
            ListMap(("mountPath",)),
        ]
        | None
    ) = Field(default=None, description="Where containers see the volumes, as in a container's spec.")
    priority_class_name: ObjectName | None = Field(default=None, description="Priority class of the pods.")
    runtime_class_name: ObjectName | None = Field(default=None, description="Runtime class of the pods.")

    rules = (
        qualified_keys("labels"),
        qualified_keys("annotations"),
        Rule(
            expression="!has(self.labels) || "
            f"self.labels.all(k, !{list(OWNED_LABEL_PREFIXES)}.exists(p, k.startsWith(p)))",
            message="labels under epd.dev/, app.kubernetes.io/ and nvidia.com/dynamo- are set by the operator: "
            "use another prefix",
            field_path=".labels",
        ),
        Rule(
            expression="!has(self.annotations) || "
            f"self.annotations.all(k, !{list(OWNED_ANNOTATION_PREFIXES)}.exists(p, k.startsWith(p)))",
            message="annotations under epd.dev/ and nvidia.com/dynamo- are set by the operator: use another prefix",
            field_path=".annotations",
        ),
    )

"""Types that several parts of the API share."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from epd_operator.api.markers import KubernetesObject, ListMap, Quantity, Rule

DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")]
QualifiedName = Annotated[str, Field(min_length=1, max_length=317)]
Argument = Annotated[str, Field(max_length=4096)]
Image = Annotated[str, Field(min_length=1, max_length=1024)]


class ApiModel(BaseModel):
    """Base of all API types: camelCase on the wire, immutable, unknown fields ignored as the API server prunes them."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")
    rules: ClassVar[tuple[Rule, ...]] = ()


class LocalObjectReference(ApiModel):
    """The name of an object in the same namespace."""

    name: ObjectName = Field(description="Name of the object, in the namespace of the EPDDeployment.")


class KeySelector(ApiModel):
    """One key of a Secret or ConfigMap in the same namespace."""

    name: ObjectName = Field(description="Name of the Secret or ConfigMap.")
    key: Annotated[str, Field(min_length=1, max_length=253)] = Field(description="Key inside it.")
    optional: bool | None = Field(default=None, description="Start the pod even if the object or the key is missing.")


class FieldSelector(ApiModel):
    """One field of the pod itself."""

    field_path: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        description="Path of the field, such as status.hostIP."
    )


class EnvVarSource(ApiModel):
    """Where the value of an environment variable comes from; exactly one must be set."""

    secret_key_ref: KeySelector | None = Field(default=None, description="A key of a Secret.")
    config_map_key_ref: KeySelector | None = Field(default=None, description="A key of a ConfigMap.")
    field_ref: FieldSelector | None = Field(default=None, description="A field of the pod.")

    rules = (
        Rule(
            expression="[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)].filter(x, x).size() == 1",
            message="set exactly one of secretKeyRef, configMapKeyRef and fieldRef",
        ),
    )


OWNED_ENV_PREFIXES = ("DYN_", "POD_", "EPD_", "VLLM_NIXL_SIDE_CHANNEL_", "CUDA_MPS_")
OWNED_ENV_NAMES = ("CONTAINER_NAME", "VLLM_HOST_IP", "UCX_TLS", "UCX_NET_DEVICES")
ALLOWED_DYN_ENV = (
    "DYN_LOG",
    "DYN_LOGGING_JSONL",
    "DYN_SPLIT_ENCODE",
    "DYN_MM_IMAGE_CACHE_SIZE",
    "DYN_MM_ALLOW_INTERNAL",
    "DYN_MM_LOCAL_PATH",
    "DYN_TCP_MAX_MESSAGE_SIZE",
    "DYN_VLLM_SKIP_ENCODER_ONLY_KERNEL_WARMUP",
)


class EnvVar(ApiModel):
    """An environment variable of a container."""

    name: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        description="Name of the variable. Variables that the operator sets itself are refused."
    )
    value: Annotated[str, Field(max_length=32768)] | None = Field(default=None, description="A literal value.")
    value_from: EnvVarSource | None = Field(default=None, description="A source of the value, instead of value.")

    rules = (
        Rule(
            expression="!(has(self.value) && has(self.valueFrom))",
            message="set value or valueFrom, not both",
        ),
        Rule(
            expression=f"self.name in {list(ALLOWED_DYN_ENV)} || !({list(OWNED_ENV_PREFIXES)}.exists(p, self.name.startsWith(p)) || self.name in {list(OWNED_ENV_NAMES)})",
            message="this variable is set by the operator (discovery, transfer and identity of the pod): "
            "remove it and use the fields of spec, such as transfer.ucx",
            field_path=".name",
        ),
    )


EnvList = Annotated[list[EnvVar], Field(max_length=64), ListMap(("name",))]


class Toleration(ApiModel):
    """Lets pods onto nodes with a matching taint, as in a pod's spec."""

    key: QualifiedName | None = Field(default=None, description="Key of the taint; unset with Exists means any.")
    operator: Annotated[str, Field(pattern=r"^(Exists|Equal)$", max_length=6)] | None = Field(
        default=None, description="Exists or Equal."
    )
    value: LabelValue | None = Field(default=None, description="Value of the taint, for Equal.")
    effect: Annotated[str, Field(pattern=r"^(NoSchedule|PreferNoSchedule|NoExecute)$", max_length=16)] | None = Field(
        default=None, description="Effect of the taint; unset means any."
    )
    toleration_seconds: Annotated[int, Field(ge=0, le=2147483647)] | None = Field(
        default=None, description="How long a pod stays after a NoExecute taint appeared, in seconds."
    )


class ResourceRequirements(ApiModel):
    """CPU and memory of a container. GPUs come from the pool and gpusPerReplica."""

    requests: Annotated[dict[str, Quantity], Field(max_length=16)] | None = Field(
        default=None, description="What the scheduler sets aside."
    )
    limits: Annotated[dict[str, Quantity], Field(max_length=16)] | None = Field(
        default=None, description="What the container may use at most."
    )

    rules = tuple(
        Rule(
            expression=f"!has(self.{part}) || self.{part}.all(r, r in ['cpu', 'memory', 'ephemeral-storage'] "
            "|| r.startsWith('hugepages-'))",
            message="only cpu, memory, ephemeral-storage and hugepages-* belong here: GPUs come from pools[].gpu and "
            "gpusPerReplica, RDMA devices from transfer.rdmaResource",
            field_path=f".{part}",
        )
        for part in ("requests", "limits")
    )


OWNED_LABEL_PREFIXES = ("epd.dev/", "nvidia.com/dynamo-", "app.kubernetes.io/")
OWNED_VOLUME_PREFIX = "epd-"


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
    volumes: Annotated[list[KubernetesObject], Field(max_length=16)] | None = Field(
        default=None, description="Further volumes, as in a pod's spec; their names must not begin with epd-."
    )
    volume_mounts: Annotated[list[KubernetesObject], Field(max_length=32)] | None = Field(
        default=None, description="Where containers see the volumes, as in a container's spec."
    )
    priority_class_name: ObjectName | None = Field(default=None, description="Priority class of the pods.")
    runtime_class_name: ObjectName | None = Field(default=None, description="Runtime class of the pods.")

    rules = (
        Rule(
            expression=f"!has(self.labels) || self.labels.all(k, !{list(OWNED_LABEL_PREFIXES)}.exists(p, k.startsWith(p)))",
            message="labels under epd.dev/, app.kubernetes.io/ and nvidia.com/dynamo- are set by the operator: "
            "use another prefix",
            field_path=".labels",
        ),
        Rule(
            expression="!has(self.volumes) || self.volumes.all(v, has(v.name) && type(v.name) == string && "
            f"!v.name.startsWith('{OWNED_VOLUME_PREFIX}'))",
            message="every volume needs a name, and names that begin with epd- belong to the operator: choose another",
            field_path=".volumes",
        ),
    )

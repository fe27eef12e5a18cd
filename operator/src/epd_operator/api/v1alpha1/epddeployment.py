"""The kind EPDDeployment: its spec, rules and printer columns."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from epd_operator.api.markers import Int, KubernetesObject, ListMap, PrinterColumn, Rule
from epd_operator.api.v1alpha1.arguments import Arguments
from epd_operator.api.v1alpha1.autoscaling import Scaling, ServiceLevel
from epd_operator.api.v1alpha1.base import (
    ApiModel,
    ExtendedResource,
    Image,
    KeySelector,
    LocalObjectReference,
    ObjectName,
)
from epd_operator.api.v1alpha1.env import EnvList
from epd_operator.api.v1alpha1.network import Devices, Transports
from epd_operator.api.v1alpha1.pod_template import CACHE_PATH, TOKEN_PATHS, MountPath, PodTemplate
from epd_operator.api.v1alpha1.pools import Pool
from epd_operator.api.v1alpha1.rollout import RevisionRollout
from epd_operator.api.v1alpha1.spec_rules import SPEC_RULES
from epd_operator.api.v1alpha1.stages import (
    Encoder,
    Frontend,
    Group,
    PrefillDecode,
    Worker,
)
from epd_operator.api.v1alpha1.status import EPDDeploymentStatus
from epd_operator.api.v1alpha1.topology import Topology
from epd_operator.api.v1alpha1.verification import Verification
from epd_operator.backends.registry import Framework


class Management(StrEnum):
    """Whether the operator creates the objects."""

    MANAGED = "Managed"
    UNMANAGED = "Unmanaged"


class NetworkPolicy(ApiModel):
    """Which clients can connect to the pods."""

    mode: Management = Field(
        default=Management.MANAGED,
        description="Managed: the operator creates NetworkPolicies. Pods accept connections only from pods of the "
        "same EPDDeployment, frontends accept all clients on their HTTP port, and all pods of the cluster can read "
        "metrics. Your own NetworkPolicies can allow more. Unmanaged: the operator creates none.",
    )


class DisruptionBudget(ApiModel):
    """How many pods node drains can evict at the same time."""

    mode: Management = Field(
        default=Management.MANAGED,
        description="Managed: the operator creates PodDisruptionBudgets that allow the eviction of a quarter of "
        "each stage's pods, rounded up. Unmanaged: it creates none. Set this before you create your own, because "
        "Kubernetes cannot evict a pod that two PodDisruptionBudgets select.",
    )


NO_FLAG = r"^[^\t\n\f\r -][^\t\n\f\r ]*$"
"""No white space, and no leading '-', with which the text would be parsed as a flag."""


class ModelStorage(ApiModel):
    """A volume that holds the model's files."""

    claim_name: ObjectName = Field(description="PersistentVolumeClaim, mounted read-only into every pod.")
    mount_path: MountPath = Field(
        default="/models", description="Mount path of the volume in the pods. model.name can be a path below it."
    )

    rules = (
        Rule(
            expression=f"!{[CACHE_PATH, *TOKEN_PATHS]}"
            ".exists(path, path.startsWith((self.mountPath + '/').replace('//', '/')))",
            message="the volume is read-only, so nothing can be mounted below it, but the pods have a cache at "
            f"{CACHE_PATH} and a token below /run and /var/run: choose another path, for example /models",
            field_path=".mountPath",
        ),
    )


class Model(ApiModel):
    """The model to serve."""

    name: Annotated[str, Field(min_length=1, max_length=512, pattern=NO_FLAG)] = Field(
        description="Hugging Face name, such as Qwen/Qwen3-VL-8B-Instruct, or the path of a folder in the pods."
    )
    served_name: Annotated[str, Field(min_length=1, max_length=253, pattern=NO_FLAG)] | None = Field(
        default=None, description="Model name that clients use. Unset means model.name."
    )
    storage: ModelStorage | None = Field(
        default=None,
        description="Volume with the model files. Unset means that the pods download the model, or that their "
        "image contains it.",
    )
    token_secret: KeySelector | None = Field(
        default=None, description="Key of a Secret that holds the token for a gated model (HF_TOKEN in the pods)."
    )


class ImagePullPolicy(StrEnum):
    """When nodes pull an image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Runtime(ApiModel):
    """Engine, image and arguments of the pods."""

    framework: Framework = Field(default=Framework.VLLM, description="Inference engine that Dynamo uses.")
    image: Image = Field(description="Image with Dynamo, the engine and this project's launcher (epd_worker).")
    image_pull_policy: ImagePullPolicy = Field(
        default=ImagePullPolicy.IF_NOT_PRESENT, description="When nodes pull the image."
    )
    image_pull_secrets: Annotated[list[LocalObjectReference], Field(max_length=8), ListMap(("name",))] | None = Field(
        default=None, description="Secrets for pulling the image."
    )
    env: EnvList | None = Field(default=None, description="Environment variables of every container.")
    args: Arguments | None = Field(
        default=None,
        description="Engine arguments of every vLLM process. Set arguments here that must be the same for encoder "
        "and PD, such as dtype, processor settings and context length.",
    )
    startup_timeout_seconds: Annotated[Int, Field(ge=10, le=86400)] = Field(
        default=3600, description="Maximum time for loading the model before the process is restarted, in seconds."
    )

    hang_timeout_seconds: Annotated[
        Int,
        Field(ge=0, le=86400),
        Rule(
            expression="self == 0 || self >= 30",
            message="set 30 or more, because a busy process may not answer for some seconds, or 0 for no limit",
        ),
    ] = Field(
        default=300,
        description="Maximum time that a process that was ready may give no healthy answer before its container is "
        "restarted, in seconds. 0 means no limit.",
    )


class TransferMode(StrEnum):
    """Which process transfers an embedding from encoder to PD worker."""

    NIXL_READ = "NixlRead"
    NIXL_WRITE = "NixlWrite"


class Ucx(ApiModel):
    """UCX, the transport layer that NIXL uses."""

    transports: Transports = Field(
        default=["rc", "tcp", "cuda_copy", "cuda_ipc", "self", "sm"],
        description="Transports that UCX may use (UCX_TLS).",
    )
    devices: Devices | None = Field(
        default=None, description="Network devices that UCX may use (UCX_NET_DEVICES). Unset means all."
    )


class LockedMemory(StrEnum):
    """How pods may lock the memory that RDMA reads and writes."""

    NODE_LIMIT = "NodeLimit"
    ROOT = "Root"


class Transfer(ApiModel):
    """Transfer of embeddings from encoders to PD workers."""

    mode: TransferMode = Field(
        default=TransferMode.NIXL_READ,
        description="NixlRead: the PD worker reads each embedding from the encoder. NixlWrite: the encoder writes "
        "each embedding into a ring buffer in the PD worker, which takes 8 GiB of host memory.",
    )
    ucx: Ucx = Field(default_factory=Ucx, description="UCX, the transport layer that NIXL uses.")
    rdma_resource: ExtendedResource | None = Field(
        default=None,
        description="Extended resource of an RDMA device, such as rdma/ib. Pods request one per GPU.",
    )
    locked_memory: LockedMemory = Field(
        default=LockedMemory.NODE_LIMIT,
        description="With rdmaResource: how pods may lock the memory that RDMA uses. NodeLimit: the limit of the "
        "container runtime on the nodes must suffice (LimitMEMLOCK of containerd). Root: containers with RDMA devices "
        "run as root with the capability IPC_LOCK only, because it has no effect for other users. The namespace must "
        "then allow the Pod Security level privileged.",
    )


class Drain(ApiModel):
    """Graceful termination of pods."""

    timeout_seconds: Annotated[Int, Field(ge=1, le=86400)] = Field(
        default=120,
        description="Time that a terminating pod has to finish its requests before it is stopped, in seconds.",
    )


class EPDDeploymentSpec(ApiModel):
    """Desired state."""

    model: Model = Field(description="The model to serve.")
    runtime: Runtime = Field(description="Engine, image and arguments of the pods.")
    topology: Topology = Field(
        description="Aggregated: each worker encodes, prefills and decodes (needs worker). CoLocated: encoders and "
        "a PD process share each GPU (needs group). Disaggregated: encoders and PD workers run in separate pods "
        "(needs encoder and pd)."
    )
    pools: Annotated[list[Pool], Field(min_length=1, max_length=16), ListMap(("name",))] = Field(
        description="GPU pools that stages run on."
    )
    frontend: Frontend = Field(default_factory=Frontend, description="The OpenAI-compatible endpoint.")
    worker: Worker | None = Field(default=None, description="The workers of topology Aggregated.")
    group: Group | None = Field(default=None, description="The groups of topology CoLocated.")
    encoder: Encoder | None = Field(default=None, description="The encoders of topology Disaggregated.")
    pd: PrefillDecode | None = Field(default=None, description="The PD workers of topology Disaggregated.")
    transfer: Transfer = Field(
        default_factory=Transfer, description="Transfer of embeddings from encoders to PD workers."
    )
    drain: Drain = Field(default_factory=Drain, description="Graceful termination of pods.")
    rollout: RevisionRollout = Field(
        default_factory=RevisionRollout, description="How a new revision replaces the one that serves."
    )
    verification: Verification | None = Field(
        default=None, description="Requests with known answers that a new revision must answer before it serves."
    )
    scaling: Scaling = Field(default_factory=Scaling, description="Autoscaling settings for all stages.")
    slo: ServiceLevel | None = Field(default=None, description="Latency objectives for autoscaling.")
    network_policy: NetworkPolicy = Field(
        default_factory=NetworkPolicy, description="Which clients can connect to the pods."
    )
    disruption_budget: DisruptionBudget = Field(
        default_factory=DisruptionBudget, description="How many pods node drains can evict at the same time."
    )
    pod_template: PodTemplate | None = Field(default=None, description="Settings of all pods.")

    rules = SPEC_RULES


GROUP = "epd.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "EPDDeployment"
PLURAL = "epddeployments"

MAX_NAME_LENGTH = 37
"""With '-frontend' and the suffixes of ReplicaSet and pod, names must not exceed 63 characters."""


PRINTER_COLUMNS = (
    PrinterColumn(name="Topology", json_path=".status.topology", description="Topology of the revision that serves."),
    PrinterColumn(
        name="Ready",
        json_path=".status.conditions[?(@.type=='Ready')].status",
        description="Whether everything matches the spec.",
    ),
    PrinterColumn(name="Stages", json_path=".status.summary", description="Ready and desired pods per stage."),
    PrinterColumn(name="Endpoint", json_path=".status.endpoint", description="URL inside the cluster."),
    PrinterColumn(name="Age", json_path=".metadata.creationTimestamp", type="date"),
    PrinterColumn(
        name="Reason",
        json_path=".status.conditions[?(@.type=='Ready')].reason",
        priority=1,
        description="Reason of the condition Ready.",
    ),
    PrinterColumn(name="Wanted", json_path=".spec.topology", priority=1, description="Topology in the spec."),
)


class EPDDeployment(ApiModel):
    """A multimodal model, served by NVIDIA Dynamo with encode, prefill and decode in the same or in separate pods."""

    api_version: Literal["epd.dev/v1alpha1"] = "epd.dev/v1alpha1"
    kind: Literal["EPDDeployment"] = "EPDDeployment"
    metadata: Annotated[KubernetesObject, Field(default_factory=dict)]
    spec: EPDDeploymentSpec = Field(description="Desired state.")
    # The API server sets this default on creation. Without observedGeneration, kstatus would consider the object ready.
    status: EPDDeploymentStatus = Field(default_factory=EPDDeploymentStatus, description="Observed state.")

    rules = (
        Rule(
            expression=f"self.metadata.name.size() <= {MAX_NAME_LENGTH}",
            message=f"the name becomes part of pod and Service names: use at most {MAX_NAME_LENGTH} characters",
            field_path=".metadata.name",
        ),
        Rule(
            expression="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            message="the name becomes part of pod and Service names: use lower-case letters, digits and '-', and "
            "start with a letter",
            field_path=".metadata.name",
        ),
    )

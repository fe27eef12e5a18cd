"""EPDDeployment: one multimodal model, served in one of three topologies. Spec, rules and how kubectl shows it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from epd_operator.api.markers import Int, KubernetesObject, ListMap, ListSet, PrinterColumn, Rule
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
from epd_operator.api.v1alpha1.pod_template import MountPath, PodTemplate
from epd_operator.api.v1alpha1.pools import Pool
from epd_operator.api.v1alpha1.spec_rules import SPEC_RULES
from epd_operator.api.v1alpha1.stages import (
    Arguments,
    Encoder,
    Frontend,
    Group,
    PrefillDecode,
    Worker,
    no_owned_arguments,
)
from epd_operator.api.v1alpha1.status import EPDDeploymentStatus
from epd_operator.api.v1alpha1.topology import Topology
from epd_operator.backends.registry import Framework


class Management(StrEnum):
    """Who makes the objects."""

    MANAGED = "Managed"
    UNMANAGED = "Unmanaged"


class NetworkPolicy(ApiModel):
    """Who may connect to the pods."""

    mode: Management = Field(
        default=Management.MANAGED,
        description="Managed: the pods take connections only from pods of the same EPDDeployment; frontends take them "
        "from everybody, on their HTTP port; metrics can be read by all pods of the cluster. NetworkPolicies of your "
        "own allow more. Unmanaged: the operator makes none.",
    )


class DisruptionBudget(ApiModel):
    """How many pods a drain of nodes may take at a time."""

    mode: Management = Field(
        default=Management.MANAGED,
        description="Managed: a quarter of each stage's pods, rounded up. Unmanaged: the operator makes no "
        "PodDisruptionBudgets; Kubernetes evicts no pod that two of them select, so choose it before you make your "
        "own.",
    )


NO_FLAG = r"^[^\t\n\f\r -][^\t\n\f\r ]*$"
"""No white space, and no leading '-' that would make a flag of it."""


class ModelStorage(ApiModel):
    """A volume that holds the model's files."""

    claim_name: ObjectName = Field(description="PersistentVolumeClaim, mounted read-only into every pod.")
    mount_path: MountPath = Field(
        default="/models", description="Where pods see the volume; model.name may be a path below it."
    )


class Model(ApiModel):
    """The model to serve."""

    name: Annotated[str, Field(min_length=1, max_length=512, pattern=NO_FLAG)] = Field(
        description="Hugging Face name, such as Qwen/Qwen3-VL-8B-Instruct, or the path of a folder in the pods."
    )
    served_name: Annotated[str, Field(min_length=1, max_length=253, pattern=NO_FLAG)] | None = Field(
        default=None, description="Name that clients use; unset means model.name."
    )
    storage: ModelStorage | None = Field(
        default=None, description="Volume with the model's files; unset means that pods fetch them or have them."
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
    """What runs in the pods."""

    framework: Framework = Field(default=Framework.VLLM, description="Inference engine below Dynamo.")
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
        description="Engine arguments of every vLLM process. What encoder and PD must agree on (dtype, processor "
        "settings, context length) belongs here.",
    )
    startup_timeout_seconds: Annotated[Int, Field(ge=10, le=86400)] = Field(
        default=3600, description="How long a process may take to load the model before it is restarted, in seconds."
    )

    rules = (no_owned_arguments("args"),)


class TransferMode(StrEnum):
    """Who moves an embedding from encoder to PD."""

    NIXL_READ = "NixlRead"
    NIXL_WRITE = "NixlWrite"


class Ucx(ApiModel):
    """UCX below NIXL."""

    transports: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[a-z0-9_]+$")]],
        Field(min_length=1, max_length=16),
        ListSet(),
    ] = Field(
        default=["rc", "tcp", "cuda_copy", "cuda_ipc", "self", "sm"],
        description="Transports that UCX may use (UCX_TLS).",
    )
    devices: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.:-]+$")]],
            Field(max_length=16),
            ListSet(),
        ]
        | None
    ) = Field(default=None, description="Network devices that UCX may use (UCX_NET_DEVICES); unset means all.")


class Transfer(ApiModel):
    """How embeddings travel from encoders to PD workers."""

    mode: TransferMode = Field(
        default=TransferMode.NIXL_READ,
        description="NixlRead: the PD worker pulls each embedding. NixlWrite: the encoder pushes into a ring of 8 GiB "
        "of host memory in every PD worker.",
    )
    ucx: Ucx = Field(default_factory=Ucx, description="UCX below NIXL.")
    rdma_resource: ExtendedResource | None = Field(
        default=None,
        description="Extended resource of an RDMA device, such as rdma/ib: one is requested per GPU, and the "
        "containers get the capability IPC_LOCK.",
    )


class Drain(ApiModel):
    """How pods leave."""

    timeout_seconds: Annotated[Int, Field(ge=1, le=86400)] = Field(
        default=120, description="How long a leaving pod may finish what it is doing before it is stopped, in seconds."
    )


class EPDDeploymentSpec(ApiModel):
    """What the user wants."""

    model: Model = Field(description="The model to serve.")
    runtime: Runtime = Field(description="What runs in the pods.")
    topology: Topology = Field(
        description="Aggregated: each worker does everything (needs worker). CoLocated: encoders and a PD process "
        "share each GPU (needs group). Disaggregated: encoders and PD workers in pods of their own (needs encoder "
        "and pd)."
    )
    pools: Annotated[list[Pool], Field(min_length=1, max_length=16), ListMap(("name",))] = Field(
        description="GPU pools that stages run on."
    )
    frontend: Frontend = Field(default_factory=Frontend, description="The OpenAI-compatible endpoint.")
    worker: Worker | None = Field(default=None, description="The workers of topology Aggregated.")
    group: Group | None = Field(default=None, description="The groups of topology CoLocated.")
    encoder: Encoder | None = Field(default=None, description="The encoders of topology Disaggregated.")
    pd: PrefillDecode | None = Field(default=None, description="The PD workers of topology Disaggregated.")
    transfer: Transfer = Field(default_factory=Transfer, description="How embeddings travel.")
    drain: Drain = Field(default_factory=Drain, description="How pods leave.")
    scaling: Scaling = Field(default_factory=Scaling, description="What all scaled stages share.")
    slo: ServiceLevel | None = Field(default=None, description="Latencies to keep by scaling.")
    network_policy: NetworkPolicy = Field(default_factory=NetworkPolicy, description="Who may connect to the pods.")
    disruption_budget: DisruptionBudget = Field(
        default_factory=DisruptionBudget, description="How many pods a drain of nodes may take at a time."
    )
    pod_template: PodTemplate | None = Field(default=None, description="Shape of all pods.")

    rules = SPEC_RULES


GROUP = "epd.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "EPDDeployment"
PLURAL = "epddeployments"

MAX_NAME_LENGTH = 37
"""Leaves room for '-frontend' and the suffixes of ReplicaSet and pod within 63 characters."""


PRINTER_COLUMNS = (
    PrinterColumn(name="Topology", json_path=".spec.topology", description="Topology asked for."),
    PrinterColumn(
        name="Ready",
        json_path=".status.conditions[?(@.type=='Ready')].status",
        description="Whether all is as asked for.",
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
)


class EPDDeployment(ApiModel):
    """One multimodal model, served by NVIDIA Dynamo with encode, prefill and decode together or apart."""

    api_version: Literal["epd.dev/v1alpha1"] = "epd.dev/v1alpha1"
    kind: Literal["EPDDeployment"] = "EPDDeployment"
    metadata: Annotated[KubernetesObject, Field(default_factory=dict)]
    spec: EPDDeploymentSpec = Field(description="What the user wants.")
    # Written by the server at creation: without an observed generation kstatus takes an object for ready.
    status: EPDDeploymentStatus = Field(default_factory=EPDDeploymentStatus, description="What the operator saw.")

    rules = (
        Rule(
            expression=f"self.metadata.name.size() <= {MAX_NAME_LENGTH}",
            message=f"the name becomes part of pod and Service names: use at most {MAX_NAME_LENGTH} characters",
            field_path=".metadata.name",
        ),
        Rule(
            expression="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            message="the name becomes part of pod and Service names: use lower-case letters, digits and '-', beginning "
            "with a letter",
            field_path=".metadata.name",
        ),
    )

"""The stages of a deployment: frontend, worker (Aggregated), group (CoLocated), encoder and pd (Disaggregated)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from epd_operator.api.markers import Int, Quantity, Rule, is_quantity
from epd_operator.api.v1alpha1.arguments import Arguments
from epd_operator.api.v1alpha1.autoscaling import Autoscaling
from epd_operator.api.v1alpha1.base import ApiModel, DnsLabel, LabelValue, Memory, qualified_keys
from epd_operator.api.v1alpha1.env import EnvList
from epd_operator.api.v1alpha1.network import Network
from epd_operator.api.v1alpha1.pod_template import PodTemplate, ResourceRequirements, Toleration
from epd_operator.api.v1alpha1.rollout import Rollout

_LITERAL_VARIABLES = Rule(
    expression="!has(self.env) || self.env.all(e, !has(e.valueFrom))",
    message="variables of one process of a group must have literal values: move variables with valueFrom to "
    "group.env, which applies to all processes of the group",
    field_path=".env",
)


class MediaDecoding(StrEnum):
    """Which process decodes images."""

    WORKER = "Worker"
    FRONTEND = "Frontend"


class Routing(StrEnum):
    """How the frontend distributes requests to workers (Dynamo's router modes)."""

    ROUND_ROBIN = "RoundRobin"
    RANDOM = "Random"
    POWER_OF_TWO = "PowerOfTwo"
    LEAST_LOADED = "LeastLoaded"
    DEVICE_AWARE_WEIGHTED = "DeviceAwareWeighted"
    DIRECT = "Direct"
    KV = "KV"
    KV_APPROXIMATE = "KVApproximate"


class ServiceType(StrEnum):
    """Type of the Service of the endpoint."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class FrontendService(ApiModel):
    """The Service in front of the frontend pods."""

    type: ServiceType = Field(default=ServiceType.CLUSTER_IP, description="Type of the Service.")
    port: Annotated[Int, Field(ge=1, le=65535)] = Field(default=8000, description="Port of the Service.")
    annotations: Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=32)] | None = Field(
        default=None, description="Annotations of the Service, for example for a cloud's load balancer."
    )

    rules = (qualified_keys("annotations"),)


class Stage(ApiModel):
    """Fields that all stages have."""

    replicas: Annotated[Int, Field(ge=1, le=10000)] = Field(
        default=1, description="Number of pods. With autoscaling, the initial number."
    )
    autoscaling: Autoscaling | None = Field(
        default=None, description="Autoscaling of the stage by its own load. Unset means a fixed number of replicas."
    )
    rollout: Rollout = Field(default_factory=Rollout, description="How a rollout replaces the pods of the stage.")
    resources: ResourceRequirements | None = Field(
        default=None, description="CPU and memory of each pod's main container."
    )
    env: EnvList | None = Field(default=None, description="Additional environment variables, after runtime.env.")
    args: Arguments | None = Field(default=None, description="Additional arguments, after runtime.args.")
    network: Network | None = Field(
        default=None, description="Network of the pods, where it differs from that of their pool."
    )
    pod_template: PodTemplate | None = Field(
        default=None, description="Settings of this stage's pods. They take precedence over spec.podTemplate."
    )


class Frontend(Stage):
    """The OpenAI-compatible HTTP endpoint. It needs no GPU."""

    media_decoding: MediaDecoding = Field(
        default=MediaDecoding.WORKER,
        description="Worker: encoders and workers decode images. Frontend: the frontend decodes images once and "
        "sends pixels by NIXL. Its image then needs the libraries of NIXL.",
    )
    routing: Routing = Field(
        default=Routing.ROUND_ROBIN,
        description="How requests are distributed to workers. KV: to the worker that has most of the request in its "
        "KV cache; workers then publish events about their caches. KVApproximate: the same, but frontends estimate "
        "the caches from the requests that they have sent, and workers publish nothing. Direct: each request names "
        "its worker.",
    )
    migration_limit: Annotated[Int, Field(ge=0, le=100)] = Field(
        default=0,
        description="How often a request may continue on another worker when its worker is lost. 0: it fails.",
    )
    service: FrontendService = Field(default_factory=FrontendService, description="The Service of the endpoint.")
    pool: DnsLabel | None = Field(
        default=None,
        description="Name of the pool on whose nodes the pods run. They use none of its GPUs. Unset means any node.",
    )
    node_selector: Annotated[dict[str, LabelValue], Field(max_length=16)] | None = Field(
        default=None, description="Labels of the nodes on which the pods run, in addition to those of the pool."
    )
    tolerations: Annotated[list[Toleration], Field(max_length=16)] | None = Field(
        default=None, description="Tolerations for the nodes' taints, in addition to those of the pool."
    )
    shared_memory: Memory | None = Field(
        default=None,
        description="Size of /dev/shm in each pod. Unset means the default of the container runtime, often 64 MiB.",
    )

    rules = (qualified_keys("nodeSelector"),)


class GpuStage(Stage):
    """A stage whose pods have GPUs."""

    pool: DnsLabel = Field(description="Name of the pool that the pods run on.")
    shared_memory: Memory = Field(default="16Gi", description="Size of /dev/shm in each pod.")


WholeGi = Annotated[
    Quantity,
    Rule(
        expression=f"!{is_quantity()} || self.matches('^[1-9][0-9]*Gi$')",
        message="must be a whole number of Gi: set for example 8Gi",
    ),
]


class CachingStage(GpuStage):
    """A stage that prefills, so it can have a cache of image embeddings."""

    embedding_cache: WholeGi | None = Field(
        default=None,
        description="CPU memory of each pod for a cache of image embeddings, in whole Gi. Unset means no cache.",
    )


class TensorParallelStage(CachingStage):
    """A stage whose engine can use more than one GPU of a node."""

    gpus_per_replica: Annotated[Int, Field(ge=1, le=64)] = Field(
        default=1, description="Number of GPUs of each pod. More than one means tensor parallelism."
    )
    gpu_memory_percent: Annotated[Int, Field(ge=1, le=99)] | None = Field(
        default=None,
        description="Share of each GPU's memory for weights and KV cache, in percent (--gpu-memory-utilization). Unset "
        "means the default of vLLM (92 in vLLM 0.31). Lower it if vLLM reports too little free memory at its start.",
    )


class Worker(TensorParallelStage):
    """Aggregated: each worker encodes, prefills and decodes."""


class Encoder(GpuStage):
    """Disaggregated: turns images into embeddings."""


class PrefillDecode(TensorParallelStage):
    """Disaggregated: prefills and decodes, and fetches embeddings from encoders."""


class GpuSharingStrategy(StrEnum):
    """How the processes of a group share their GPU."""

    MPS = "MPS"
    TIME_SLICING = "TimeSlicing"


class GpuSharing(ApiModel):
    """How the processes of a co-located group share their GPU."""

    strategy: GpuSharingStrategy = Field(
        default=GpuSharingStrategy.MPS,
        description="MPS: the group's launcher starts an MPS daemon, and kernels of all processes run concurrently. "
        "TimeSlicing: the driver switches between the processes.",
    )


MAX_GROUP_ENCODERS = 8
"""Maximum number of encoder processes in a co-located group."""


GpuThreadPercent = Annotated[Int, Field(ge=1, le=100)]
_GPU_THREADS = (
    "Share of the GPU's multiprocessors that the process can use at the same time, in percent "
    "(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE). Needs gpuSharing.strategy MPS. Unset means all."
)


class EncoderScope(StrEnum):
    """Which encoders the PD process of a group uses."""

    POD = "Pod"
    DEPLOYMENT = "Deployment"


class GroupEncoder(ApiModel):
    """The encoder processes of a group."""

    count: Annotated[Int, Field(ge=1, le=MAX_GROUP_ENCODERS)] = Field(
        default=2, description="Encoder processes in each group."
    )
    memory: Memory = Field(
        default="4Gi",
        description="Size of the KV cache that the engine of each encoder reserves at its start "
        "(DYN_VLLM_ENCODER_KV_CACHE_MEMORY_BYTES). Encoding does not use it: NVIDIA's recipe has 4Gi, and 64Mi is the "
        "default of Dynamo. The weights and what encoding needs come in addition.",
    )
    gpu_thread_percent: GpuThreadPercent | None = Field(default=None, description=_GPU_THREADS)
    gpu_memory_limit: Memory | None = Field(
        default=None,
        description="GPU memory that each encoder can allocate, everything included "
        "(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT). Needs gpuSharing.strategy MPS. Unset means no limit.",
    )
    scope: EncoderScope = Field(
        default=EncoderScope.POD,
        description="Pod: the PD process of a group uses the encoders of its own pod, and those of other groups only "
        "while none of its own is ready. Deployment: it uses the encoders of all groups in turn, so that most "
        "embeddings cross the network.",
    )
    env: EnvList | None = Field(default=None, description="Additional environment variables of the encoders.")
    args: Arguments | None = Field(default=None, description="Additional arguments of the encoders.")

    rules = (_LITERAL_VARIABLES,)


class GroupPrefillDecode(ApiModel):
    """The PD process of a group."""

    gpu_memory_percent: Annotated[Int, Field(ge=1, le=95)] = Field(
        default=78, description="Share of the GPU's memory for weights and KV cache of the PD process, in percent."
    )
    gpu_thread_percent: GpuThreadPercent | None = Field(default=None, description=_GPU_THREADS)
    env: EnvList | None = Field(default=None, description="Additional environment variables of the PD process.")
    args: Arguments | None = Field(default=None, description="Additional arguments of the PD process.")

    rules = (_LITERAL_VARIABLES,)


_STUB_AMOUNTS = {"cpu": "100m", "memory": "64Mi"}
STUB_RESOURCES = ResourceRequirements(requests=_STUB_AMOUNTS, limits=_STUB_AMOUNTS)
"""For an idle stub and its preStop hook. Each is a Python process of 14 MB (measured, resident).

Requests equal limits, so that the pod is Guaranteed if group.resources has equal requests and limits of cpu and memory.
"""


class Group(CachingStage):
    """CoLocated: each pod has one GPU and runs several encoders and one PD process on it."""

    shared_memory: Memory = Field(default="64Gi", description="Size of /dev/shm in each pod.")
    gpu_sharing: GpuSharing = Field(default_factory=GpuSharing, description="How the processes share the GPU.")
    stub_resources: ResourceRequirements = Field(
        default=STUB_RESOURCES,
        description="CPU and memory of each container that only names an encoder for Dynamo's discovery. The encoder "
        "itself runs in the container pd, to which resources apply.",
    )
    encoder: GroupEncoder = Field(default_factory=GroupEncoder, description="The encoder processes.")
    pd: GroupPrefillDecode = Field(default_factory=GroupPrefillDecode, description="The PD process.")

    rules = (
        Rule(
            expression="self.gpuSharing.strategy == 'MPS' || !(has(self.encoder.gpuThreadPercent) "
            "|| has(self.encoder.gpuMemoryLimit) || has(self.pd.gpuThreadPercent))",
            message="gpuThreadPercent and gpuMemoryLimit are settings of MPS: remove them, or set gpuSharing.strategy "
            "to MPS",
            field_path=".gpuSharing.strategy",
        ),
    )

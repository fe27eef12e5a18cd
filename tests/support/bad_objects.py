"""Objects with one error each, and the message of the API server about it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as field_of
from typing import Any

from support.specs import raw_spec

REMOVE = object()
"""As the new value of a field: remove the field."""

A, C, D = "Aggregated", "CoLocated", "Disaggregated"
A_KEY = {"name": "n", "key": "k"}
OWNED_FLAG = "a flag that only the operator sets: "
OWNED_VARIABLE = "this variable is reserved for the operator"
NO_PROGRESS = "maxSurge and maxUnavailable must not both be 0, because no pod could be replaced"
UNKNOWN_POOL = "spec.pools has no pool with this name: add the pool, or correct the name"


@dataclass(frozen=True)
class Bad:
    """An object with one error.

    Attributes:
        sentence: the error, for the name of the test.
        field: path that the API server names.
        message: part of its message.
        changes: new values by path below spec, applied to a valid spec.
        topology: of the valid spec.
        name: name of the object.
    """

    sentence: str
    field: str
    message: str
    changes: Mapping[str, Any] = field_of(default_factory=dict)
    topology: str = D
    name: str = "qwen"
    also: tuple[str, ...] = ()

    def object(self) -> dict[str, Any]:
        """The object."""
        return deployment(self.topology, changes=self.changes, name=self.name)


def deployment(topology: str = D, *, changes: Mapping[str, Any] | None = None, name: str = "qwen") -> dict[str, Any]:
    """A valid object with changes, each a new value by path below spec such as ``pools.0.gpu.memory``."""
    spec = copy.deepcopy(raw_spec(topology))
    for path, value in (changes or {}).items():
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        target: Any = spec
        for parent in parents:
            target = target[parent] if isinstance(parent, int) else target.setdefault(parent, {})
        if value is REMOVE:
            del target[last]
        else:
            target[last] = value
    return {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": name}, "spec": spec}


def env(name: str, **fields: Any) -> list[dict[str, Any]]:
    """A list of one environment variable."""
    return [{"name": name, **fields}]


def mount(name: str, path: str) -> dict[str, str]:
    """A volume mount."""
    return {"name": name, "mountPath": path}


def _needs(topology: str, stage: str) -> Bad:
    return Bad(
        f"{topology} without {stage}",
        f"spec.{stage}",
        f"topology {topology} needs spec.{stage}: add it, or choose another topology",
        {stage: REMOVE},
        topology,
    )


def _has_not(topology: str, stage: str, *, home: str) -> Bad:
    return Bad(
        f"{topology} with {stage}",
        f"spec.{stage}",
        f"topology {topology} has no stage {stage}: remove spec.{stage}, or set topology to {home}",
        {stage: {"pool": "gb200"}},
        topology,
    )


STAGES = [
    _needs(A, "worker"),
    _needs(C, "group"),
    _needs(D, "encoder"),
    _needs(D, "pd"),
    _has_not(A, "group", home=C),
    _has_not(A, "encoder", home=D),
    _has_not(A, "pd", home=D),
    _has_not(C, "worker", home=A),
    _has_not(C, "encoder", home=D),
    _has_not(C, "pd", home=D),
    _has_not(D, "worker", home=A),
    _has_not(D, "group", home=C),
    Bad("an unknown topology", "spec.topology", 'supported values: "Aggregated", "CoLocated"', {"topology": "Split"}),
    Bad("no topology", "spec.topology", "Required value", {"topology": REMOVE}),
    Bad("no pods of a stage", "spec.pd.replicas", "should be greater than or equal to 1", {"pd.replicas": 0}),
    Bad("half a pod", "spec.pd.replicas", 'must be of type int32: "float64"', {"pd.replicas": 1.5}),
    Bad("pods counted in a string", "spec.pd.replicas", 'must be of type integer: "string"', {"pd.replicas": "2"}),
    Bad("more encoders than a group holds", "spec.group.encoder.count", "less than or equal to 8",
        {"group.encoder.count": 9}, C),
    Bad("a PD process that takes the whole GPU", "spec.group.pd.gpuMemoryPercent", "less than or equal to 95",
        {"group.pd.gpuMemoryPercent": 100}, C),
    Bad("a group whose processes exceed the GPU", "spec.group", "exceed the memory of the pool's GPU: lower one",
        {"group.encoder": {"count": 4, "memory": "8Gi"}, "pools.0.gpu.memory": "96Gi"}, C),
]  # fmt: skip

POOLS = [
    *(
        Bad(f"an unknown pool of {stage}", f"spec.{stage}.pool", UNKNOWN_POOL,
            {f"{stage}.pool": "h100"}, topology)
        for topology, stage in ((A, "worker"), (C, "group"), (D, "encoder"), (D, "pd"))
    ),
    Bad("no pools", "spec.pools", "should have at least 1 items", {"pools": []}, A, also=("spec.worker.pool",)),
    Bad("two pools of one name", "spec.pools[1]", 'Duplicate value: {"name":"gb200"}', {"pools.1.name": "gb200"}, A),
    Bad("a pool without a name", "spec.pools[1].name", "Required value", {"pools.1.name": REMOVE}),
    Bad("a pool name with capitals", "spec.pools[1].name", "should match '^[a-z0-9]", {"pools.1.name": "RTX"}, A),
    Bad("a GPU resource without a domain", "spec.pools[0].gpu.resourceName",
        "an extended resource needs a domain, such as nvidia.com/gpu or rdma/ib", {"pools.0.gpu.resourceName": "gpu"}),
    Bad("a GPU without memory", "spec.pools[0].gpu.memory", "must be at least 1Mi", {"pools.0.gpu.memory": "0"}),
    Bad("GPU memory without a unit", "spec.pools[0].gpu.memory", "must be at least 1Mi",
        {"pools.0.gpu.memory": "186"}),
    Bad("an unknown architecture", "spec.pools[0].gpu.architecture", 'supported values: "amd64", "arm64"',
        {"pools.0.gpu.architecture": "aarch64"}),
    Bad("two GPU products for one pool", "spec.pools[0].nodeSelector",
        "gpu.product already selects nodes by the label nvidia.com/gpu.product",
        {"pools.0.nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200"}}),
    Bad("product and products", "spec.pools[0].gpu.products", "set product or products, not both",
        {"pools.0.gpu.products": ["NVIDIA-GB300"]}),
    Bad("products and a label", "spec.pools[1].nodeSelector", "gpu.products already selects nodes by the label",
        {"pools.1": {"name": "rtx", "gpu": {"products": ["A"]}, "nodeSelector": {"nvidia.com/gpu.product": "A"}}}),
    Bad("an unknown preset", "spec.pools[0].preset", 'supported values: "GB200", "GB300"', {"pools.0.preset": "H800"}),
    Bad("two architectures for one pool", "spec.pools[0].nodeSelector",
        "gpu.architecture already selects nodes by the label kubernetes.io/arch",
        {"pools.0.nodeSelector": {"kubernetes.io/arch": "amd64"}}),
    Bad("a toleration of operator Exists with a value", "spec.pools[0].tolerations[0].value",
        "must not have a value: remove", {"pools.0.tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]}),
    Bad("a toleration without a key", "spec.pools[0].tolerations[0]", "without a key needs operator Exists",
        {"pools.0.tolerations": [{"effect": "NoSchedule"}]}),
    Bad("a toleration with seconds for NoSchedule", "spec.pools[0].tolerations[0].tolerationSeconds",
        "tolerationSeconds needs effect NoExecute",
        {"pools.0.tolerations": [{"key": "k", "effect": "NoSchedule", "tolerationSeconds": 3}]}),
    Bad("a node label with a space", "spec.pools[0].nodeSelector", "invalid key: use a name such as tier",
        {"pools.0.nodeSelector": {"a b": "c"}}),
    Bad("an unknown taint effect", "spec.pools[0].tolerations[0].effect", "Unsupported value",
        {"pools.0.tolerations": [{"key": "k", "effect": "Never"}]}),
]  # fmt: skip

CONTAINERS = [
    *(
        Bad(f"{name} set by the user", "spec.runtime.env[0].name", OWNED_VARIABLE,
            {"runtime.env": env(name, value="1")})
        for name in ("DYN_NAMESPACE", "POD_UID", "EPD_GROUP", "CONTAINER_NAME", "UCX_TLS", "CUDA_MPS_PIPE_DIRECTORY",
                     "VLLM_NIXL_SIDE_CHANNEL_PORT", "HOME", "XDG_CACHE_HOME", "NIXL_TELEMETRY_PROMETHEUS_PORT",
                     "DYN_SYSTEM_PORT", "DYN_HTTP_SVC_HEALTH_PATH", "DYN_METRICS_PREFIX", "DYN_ROUTER_MODE",
                     "DYN_MIGRATION_LIMIT")
    ),
    *(
        Bad(f"a variable of the operator in {holder}", f"spec.{holder}.env[0].name", OWNED_VARIABLE,
            {f"{holder}.env": env("VLLM_HOST_IP", value="::")}, topology)
        for topology, holder in ((D, "frontend"), (A, "worker"), (C, "group"), (C, "group.encoder"), (C, "group.pd"),
                                 (D, "encoder"), (D, "pd"))
    ),
    *(
        Bad(f"a variable of {holder} from a Secret", f"spec.{holder}.env", "move variables with valueFrom to",
            {f"{holder}.env": env("A", valueFrom={"secretKeyRef": A_KEY})}, C)
        for holder in ("group.encoder", "group.pd")
    ),
    Bad("one variable twice", "spec.pd.env[1]", 'Duplicate value: {"name":"A"}', {"pd.env": env("A") + env("A")}),
    Bad("a variable name with a dash", "spec.pd.env[0].name", "should match '^[A-Za-z_]", {"pd.env": env("A-B")}),
    Bad("a value and a source of a variable", "spec.pd.env[0]", "set value or valueFrom, not both",
        {"pd.env": env("A", value="1", valueFrom={"secretKeyRef": A_KEY})}),
    Bad("a source that is empty", "spec.pd.env[0].valueFrom", "set exactly one of secretKeyRef, configMapKeyRef",
        {"pd.env": env("A", valueFrom={})}),
    Bad("two sources of a variable", "spec.pd.env[0].valueFrom", "set exactly one of secretKeyRef, configMapKeyRef",
        {"pd.env": env("A", valueFrom={"secretKeyRef": A_KEY, "configMapKeyRef": A_KEY})}),
    Bad("a field that pods do not offer", "spec.pd.env[0].valueFrom.fieldRef.fieldPath",
        "Kubernetes does not support this field here: choose one of metadata.name",
        {"pd.env": env("A", valueFrom={"fieldRef": {"fieldPath": "spec.containers"}})}),
    Bad("a token given twice", "spec.runtime.env", "HF_TOKEN is already set by model.tokenSecret: remove this variable",
        {"model.tokenSecret": {"name": "hf", "key": "token"}, "runtime.env": env("HF_TOKEN", value="t")}),
    Bad("a token given twice to one stage", "spec.pd.env", "HF_TOKEN is already set by model.tokenSecret",
        {"model.tokenSecret": {"name": "hf", "key": "token"}, "pd.env": env("HF_TOKEN", value="t")}),
    *(
        Bad(f"the flag {flag} set by the user", "spec.runtime.args[1]",
            f"{named} is, or abbreviates, {OWNED_FLAG}{fix}", {"runtime.args": ["--dtype=auto", flag]})
        for flag, named, fix in (
            ("--model", "--model", "set model.name"),
            ("--model x", "--model", "set model.name"),
            ("--served-model", "--served-model", "set model.servedName"),
            ("--served_model_name=x", "--served-model-name", "set model.servedName"),
            ("--tensor-parallel-size=2", "--tensor-parallel-size", "set gpusPerReplica"),
            ("-tp=2", "-tp", "set gpusPerReplica"),
            ("-t", "-t", "set gpusPerReplica"),
            ("--no-enable-multimodal", "--enable-multimodal", "remove it"),
            ("--route-to-encoder", "--route-to-encoder", "remove it; topology decides it"),
            ("--gpu-memory-util", "--gpu-memory-util", "set gpuMemoryPercent"),
            ("--gpu_memory_utilization=0.5", "--gpu-memory-utilization", "set gpuMemoryPercent"),
            ("--http-p=9000", "--http-p", "set frontend.service.port"),
            ("--router-mode", "--router-mode", "set frontend.routing"),
            ("--no-router-kv-events", "--router-kv-events", "set frontend.routing to KV or to KVApproximate"),
            ("--kv-events-config", "--kv-events-config", "set frontend.routing to KV"),
            ("--migration-limit=3", "--migration-limit", "set frontend.migrationLimit"),
            ("--config", "--config", "write the flags of the file into args"),
            ("--config=/etc/vllm.yaml", "--config", "write the flags of the file into args"),
        )
    ),
    *(
        Bad(f"a flag of the operator in {holder}", f"spec.{holder}.args[1]", OWNED_FLAG,
            {f"{holder}.args": ["--dtype=bfloat16", "--namespace", "x"]}, topology)
        for topology, holder in ((D, "frontend"), (A, "worker"), (C, "group"), (C, "group.encoder"), (C, "group.pd"),
                                 (D, "encoder"), (D, "pd"))
    ),
    Bad("a GPU among the requests", "spec.pd.resources.requests", "set GPUs by pools[].gpu and gpusPerReplica",
        {"pd.resources.requests": {"nvidia.com/gpu": "1"}}),
    Bad("an RDMA device among the limits", "spec.pd.resources.limits", "RDMA devices by transfer.rdmaResource",
        {"pd.resources.limits": {"rdma/ib": "1"}}),
    Bad("a request above its limit", "spec.pd.resources.requests", "a request must not be greater than its limit",
        {"pd.resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "2G"}}}),
    *(
        Bad(f"the amount {amount} in {field}", f"spec.{field}",
            "not a quantity: write a number with a unit, for example 8Gi", {part: value})
        for amount in ("8GB", "-1Gi", "8 Gi", "8gi", "1e3", "")
        for field, part, value in (
            ("pd.sharedMemory", "pd.sharedMemory", amount),
            ("pd.embeddingCache", "pd.embeddingCache", amount),
            ("pools[0].gpu.memory", "pools.0.gpu.memory", amount),
            ("pd.resources.requests[memory]", "pd.resources",
             {"requests": {"memory": amount}, "limits": {"memory": "8Gi"}}),
            ("pd.resources.limits[cpu]", "pd.resources", {"requests": {"cpu": "1"}, "limits": {"cpu": amount}}),
        )
    ),
    Bad("GPU memory of a group that is not a quantity", "spec.pools[0].gpu.memory", "not a quantity",
        {"pools.0.gpu.memory": "96GB"}, C),
    Bad("memory of encoders that is not a quantity", "spec.group.encoder.memory", "not a quantity",
        {"group.encoder": {"memory": "4GB"}, "pools.0.gpu.memory": "96Gi"}, C),
    *(
        Bad(f"the absurd amount {amount}", "spec.pd.sharedMemory",
            "must be at most 1Pi: correct the number or the unit", {"pd.sharedMemory": amount})
        for amount in ("2Pi", "16Ei", "99999999999999999999E")
    ),
    Bad("an absurd limit", "spec.pd.resources.limits[memory]", "must be at most 1Pi",
        {"pd.resources.limits": {"memory": "1000000Ei"}}),
    Bad("no shared memory", "spec.pd.sharedMemory", "must be at least 1Mi", {"pd.sharedMemory": "0"}),
    Bad("shared memory in thousandths of a byte", "spec.pd.sharedMemory", "must be at least 1Mi: set for example",
        {"pd.sharedMemory": "64m"}),
    Bad("a cache in decimal units", "spec.pd.embeddingCache", "must be a whole number of Gi",
        {"pd.embeddingCache": "8G"}),
    Bad("an empty cache", "spec.pd.embeddingCache", "must be a whole number of Gi",
        {"pd.embeddingCache": "0Gi"}),
]  # fmt: skip

PODS = [
    *(
        Bad(f"a label under {prefix}", "spec.podTemplate.labels", "are set by the operator: use another prefix",
            {"podTemplate.labels": {f"{prefix}x": "y"}})
        for prefix in ("epd.dev/", "nvidia.com/dynamo-", "app.kubernetes.io/")
    ),
    Bad("a label key that is too long", "spec.podTemplate.labels", "letters, digits, '-', '_' and '.', at most 63",
        {"podTemplate.labels": {"x" * 64: "y"}}),
    Bad("an annotation key with two slashes", "spec.frontend.service.annotations",
        "after an optional DNS domain and '/'",
        {"frontend.service.annotations": {"a/b/c": "d"}}),
    Bad("an annotation of the operator", "spec.pd.podTemplate.annotations", "are set by the operator",
        {"pd.podTemplate.annotations": {"epd.dev/revision": "1"}}),
    Bad("a volume of the operator", "spec.podTemplate.volumes[0].name", "names that start with epd- are reserved",
        {"podTemplate.volumes": [{"name": "epd-shm", "emptyDir": {}}]}),
    Bad("a volume without a name", "spec.podTemplate.volumes[0].name", "Required value",
        {"podTemplate.volumes": [{"emptyDir": {}}]}),
    Bad("two volumes of one name", "spec.podTemplate.volumes[1]", 'Duplicate value: {"name":"a"}',
        {"podTemplate.volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "hostPath": {"path": "/a"}}]}),
    Bad("a mount of no volume", "spec.podTemplate.volumeMounts", "a volumeMount refers to a volume that is neither in",
        {"podTemplate.volumeMounts": [mount("a", "/a")]}),
    Bad("a mount of the operator's volume", "spec.pd.podTemplate.volumeMounts",
        "volumes of the operator, epd-*, cannot be used here",
        {"pd.podTemplate.volumeMounts": [mount("epd-shm", "/a")]}),
    Bad("a common mount of one stage's volume", "spec.podTemplate.volumeMounts",
        "a volume that is neither in this podTemplate nor in spec.podTemplate",
        {"pd.podTemplate.volumes": [{"name": "a"}], "podTemplate.volumeMounts": [mount("a", "/a")]}),
    Bad("a mount without a path", "spec.podTemplate.volumeMounts[0].mountPath", "Required value",
        {"podTemplate": {"volumes": [{"name": "a"}], "volumeMounts": [{"name": "a"}]}}),
    Bad("two mounts at one path", "spec.podTemplate.volumeMounts[1]", 'Duplicate value: {"mountPath":"/a"}',
        {"podTemplate": {"volumes": [{"name": "a"}], "volumeMounts": [mount("a", "/a"), mount("a", "/a")]}}),
    Bad("a mount at a relative path", "spec.podTemplate.volumeMounts[0].mountPath", "should match '^/",
        {"podTemplate": {"volumes": [{"name": "a"}], "volumeMounts": [mount("a", "data")]}}),
    Bad("a mount over shared memory", "spec.podTemplate.volumeMounts[0].mountPath", "mounts shared memory at /dev/shm",
        {"podTemplate": {"volumes": [{"name": "a"}], "volumeMounts": [mount("a", "/dev/shm/")]}}),
    *(
        Bad(f"a mount at {path}", "spec.podTemplate.volumeMounts[0].mountPath", message,
            {"podTemplate": {"volumes": [{"name": "a"}], "volumeMounts": [mount("a", path)]}})
        for path, message in (
            *((path, "must be a path below /, without '//', '/./' and '/../'")
              for path in ("/", "//", "/data//", "//var//cache/worker", "/var/./cache/worker", "/a/../dev", "/a/..")),
            *((path, "a volume here would hide devices, /proc, /sys or the token of the pod")
              for path in ("/dev", "/dev/", "/proc/", "/sys", "/var/run/secrets/kubernetes.io/serviceaccount",
                           "/run/secrets/kubernetes.io/serviceaccount/")),
        )
    ),
    *(
        Bad(f"a model at {path}", "spec.model.storage.mountPath", "the volume is read-only, so nothing can be mounted",
            {"model.storage": {"claimName": "weights", "mountPath": path}})
        for path in ("/var", "/var/cache/", "/run")
    ),
    Bad("a mount over the cache", "spec.podTemplate.volumeMounts[0].mountPath", "a cache at /var/cache/worker",
        {"podTemplate": {"volumes": [{"name": "a"}], "volumeMounts": [mount("a", "/var/cache/worker")]}}),
    Bad("a mount over the model", "spec.podTemplate.volumeMounts", "model.storage is already mounted at this mountPath",
        {"model.storage": {"claimName": "weights"},
         "podTemplate": {"volumes": [{"name": "a"}], "volumeMounts": [mount("a", "/models")]}}),
    Bad("a model over shared memory", "spec.model.storage.mountPath", "mounts shared memory at /dev/shm",
        {"model.storage": {"claimName": "weights", "mountPath": "/dev/shm"}}),
]  # fmt: skip

REST = [
    Bad("a name too long", "metadata.name", "use at most 37 characters", name="q" * 38),
    Bad("a name that begins with a digit", "metadata.name", "and start with a letter", name="3vl"),
    Bad("a name with a dot", "metadata.name", "use lower-case letters, digits and '-'", name="qwen.vl"),
    Bad("no model", "spec.model", "Required value", {"model": REMOVE}),
    Bad("a model name that is a flag", "spec.model.name", "should match '^[^", {"model.name": "--help"}),
    Bad("a served name with a space", "spec.model.servedName", "should match '^[^", {"model.servedName": "qwen vl"}),
    Bad("no image", "spec.runtime.image", "Required value", {"runtime.image": REMOVE}),
    *(
        Bad(f"the image {image}", "spec.runtime.image", f"not a valid image name: {fix}", {"runtime.image": image})
        for image, fix in (
            ("https://r.example.com/x:1", "remove https://"),
            ("docker://r/x:1", "remove docker://"),
            ("r.example.com/Team/x:1", "write REGISTRY/REPOSITORY:TAG, with the repository in lower case"),
            ("Worker:1", "write REGISTRY/REPOSITORY:TAG, with the repository in lower case"),
            ("r/x:", "write a tag after the last colon, or remove the colon"),
            ("x@sha256:123", "write the digest as sha256: and 64 digits of 0-9 and a-f"),
            ("x:1@sha256:" + "A" * 64, "write the digest as sha256: and 64 digits of 0-9 and a-f"),
            ("r//x:1", "write REGISTRY/REPOSITORY:TAG"),
            ("/x:1", "write REGISTRY/REPOSITORY:TAG"),
            ("r/x:1:2", "write REGISTRY/REPOSITORY:TAG"),
            ("r/x:" + "1" * 129, "write REGISTRY/REPOSITORY:TAG"),
        )
    ),
    *(
        Bad(f"an invalid image of {holder}", f"spec.{holder}.podTemplate.image", "not a valid image name",
            {f"{holder}.podTemplate": {"image": "X:1"}}, topology)
        for topology, holder in ((D, "frontend"), (A, "worker"), (C, "group"), (D, "encoder"), (D, "pd"))
    ),
    Bad("an invalid image of all pods", "spec.podTemplate.image", "not a valid image name",
        {"podTemplate.image": "X:1"}),
    Bad("an unknown framework", "spec.runtime.framework", 'supported values: "VLLM"', {"runtime.framework": "TGI"}),
    Bad("a start-up of a second", "spec.runtime.startupTimeoutSeconds", "greater than or equal to 10",
        {"runtime.startupTimeoutSeconds": 1}),
    Bad("a restart after a second without an answer", "spec.runtime.hangTimeoutSeconds", "set 30 or more",
        {"runtime.hangTimeoutSeconds": 1}),
    Bad("a port out of range", "spec.frontend.service.port", "less than or equal to 65535",
        {"frontend.service.port": 65536}),
    Bad("requests that name their worker, and a revision that must be asked", "spec.frontend.routing",
        "set rollout.strategy to Recreate", {"frontend.routing": "Direct"}),
    Bad("shares of the traffic with one revision at a time", "spec.rollout.steps", "which only strategy BlueGreen has",
        {"rollout": {"strategy": "Recreate", "steps": [{"trafficPercent": 10, "pauseSeconds": 60}]}}),
    Bad("shares of the traffic between incomplete revisions", "spec.rollout.steps", "which only strategy BlueGreen has",
        {"rollout": {"strategy": "Rolling", "steps": [{"trafficPercent": 10, "pauseSeconds": 60}]}}),
    Bad("endless migrations", "spec.frontend.migrationLimit", "less than or equal to 100",
        {"frontend.migrationLimit": 101}),
    Bad("a pool of frontends that does not exist", "spec.frontend.pool", "add the pool, or correct the name",
        {"frontend.pool": "cpu"}),
    Bad("limits of MPS without MPS", "spec.group.gpuSharing.strategy", "are settings of MPS",
        {"group.gpuSharing": {"strategy": "TimeSlicing"}, "group.pd": {"gpuThreadPercent": 50}}, C),
    Bad("an unknown routing", "spec.frontend.routing", "Unsupported value", {"frontend.routing": "kv"}),
    Bad("an unknown transfer mode", "spec.transfer.mode", 'supported values: "NixlRead", "NixlWrite"',
        {"transfer.mode": "nixl-read"}),
    Bad("no transports", "spec.transfer.ucx.transports", "should have at least 1 items",
        {"transfer.ucx.transports": []}, A),
    Bad("a transport in upper case", "spec.transfer.ucx.transports[0]",
        "names of UCX transports are in lower case: write rc", {"transfer.ucx.transports": ["RC", "tcp"]}),
    Bad("a transport with capitals", "spec.transfer.ucx.transports[1]",
        "names of UCX transports are in lower case", {"transfer.ucx.transports": ["tcp", "Cuda_Copy"]}),
    Bad("one transport twice", "spec.transfer.ucx.transports[1]", 'Duplicate value: "tcp"',
        {"transfer.ucx.transports": ["tcp", "tcp"]}),
    Bad("transports that leave no pod", "spec.transfer.ucx.transports", "these transports work only inside a pod",
        {"transfer.ucx.transports": ["self", "sm", "cuda_ipc"]}),
    Bad("an RDMA resource without a domain", "spec.transfer.rdmaResource", "an extended resource needs a domain",
        {"transfer.rdmaResource": "rdma"}),
    Bad("a drain without time", "spec.drain.timeoutSeconds", "greater than or equal to 1", {"drain.timeoutSeconds": 0}),
]  # fmt: skip

REQUESTS = {"type": "Requests", "targetPerReplica": 8}

SCALING = [
    *(
        Bad(
            f"a rollout of stage {stage} that may neither add nor remove a pod",
            f"spec.{stage}.rollout.maxUnavailable",
            NO_PROGRESS,
            {f"{stage}.rollout": {"maxSurge": surge, "maxUnavailable": unavailable}},
        )
        for stage, surge, unavailable in (("encoder", 0, 0), ("pd", "0%", 0), ("frontend", 0, "0%"))
    ),
    Bad("a lower limit above the upper", "spec.encoder.autoscaling.minReplicas", "minReplicas must not be greater",
        {"encoder.autoscaling": {"minReplicas": 3, "maxReplicas": 2, "metrics": [REQUESTS]}}),
    Bad("no encoders at all", "spec.encoder.autoscaling.minReplicas", "greater than or equal to 1",
        {"encoder.autoscaling": {"minReplicas": 0, "maxReplicas": 2, "metrics": [REQUESTS]}}),
    Bad("no upper limit", "spec.pd.autoscaling.maxReplicas", "Required value",
        {"pd.autoscaling": {"metrics": [REQUESTS]}}),
    Bad("nothing to scale by", "spec.pd.autoscaling.metrics", "mode Internal needs metrics with targets",
        {"pd.autoscaling": {"maxReplicas": 2}}),
    Bad("metrics where somebody else decides", "spec.pd.autoscaling.metrics", "in mode External",
        {"pd.autoscaling": {"mode": "External", "maxReplicas": 2, "metrics": [REQUESTS]}}),
    Bad("an unknown mode", "spec.pd.autoscaling.mode", 'supported values: "Internal", "External"',
        {"pd.autoscaling": {"mode": "Auto", "maxReplicas": 2, "metrics": [REQUESTS]}}),
    Bad("more cache than there is", "spec.pd.autoscaling.metrics[0].targetPerReplica", "at most 100",
        {"pd.autoscaling": {"maxReplicas": 2, "metrics": [{"type": "KVCacheUsage", "targetPerReplica": 101}]}}),
    Bad("the same metric twice", "spec.pd.autoscaling.metrics[1]", "Duplicate value",
        {"pd.autoscaling": {"maxReplicas": 2, "metrics": [REQUESTS, REQUESTS]}}),
    Bad("a ratio band upside down", "spec.scaling.encodersPerPd.minPercent", "minPercent must not be greater",
        {"scaling.encodersPerPd": {"minPercent": 200, "maxPercent": 50}}),
    Bad("a latency of nothing", "spec.slo.timeToFirstTokenMilliseconds", "greater than or equal to 1",
        {"slo": {"timeToFirstTokenMilliseconds": 0}}),
]  # fmt: skip


def asked(expect: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A spec with one request whose answer is known."""
    request = {"name": "capital", "messages": [{"text": "The capital of France?"}], "expect": expect, **fields}
    return {"verification": {"requests": [request]}}


PARIS = {"text": {"contains": "Paris"}}
VERIFICATION = [
    Bad("a request without an expectation", "spec.verification.requests[0].expect", "nothing is expected", asked({})),
    Bad("two expectations of one text", "spec.verification.requests[0].expect.text", "set exactly one of equals",
        asked({"text": {"contains": "Paris", "equals": "Paris"}})),
    Bad("an expectation of a text without a text", "spec.verification.requests[0].expect.text",
        "set exactly one of equals", asked({"text": {}})),
    Bad("a regular expression that is none", "spec.verification.requests[0].expect.text.matches",
        "not a regular expression of RE2",
        asked({"text": {"matches": "(Paris"}})),
    Bad("a tolerance with a unit", "spec.verification.requests[0].expect.logProbabilities.tolerance", "should match",
        asked({"logProbabilities": {"tolerance": "5%"}})),
    Bad("a picture that is a path", "spec.verification.requests[0].messages[0].images[0]", "should match",
        asked(PARIS, messages=[{"text": "What?", "images": ["/pictures/cat.png"]}])),
    Bad("too large pictures", "spec.verification.requests", "at most 131072 characters",
        asked(PARIS, messages=[{"text": "What?", "images": ["data:image/png;base64," + "A" * 70000] * 2}])),
    Bad("the same request twice", "spec.verification.requests[1]", "Duplicate value",
        {"verification": {"requests": asked(PARIS)["verification"]["requests"] * 2}}),
]  # fmt: skip

BAD_OBJECTS = [*STAGES, *POOLS, *CONTAINERS, *PODS, *SCALING, *REST, *VERIFICATION]

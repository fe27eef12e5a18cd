"""Objects that give a warning or denial of the chart's policies, and similar objects that give none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as field_of
from typing import Any

from support.admission import quiet
from support.bad_objects import env, mount

A, C, D = "Aggregated", "CoLocated", "Disaggregated"
REQUESTS = {"type": "Requests", "targetPerReplica": 8}
KV_CACHE = {"type": "KVCacheUsage", "targetPerReplica": 80}


@dataclass(frozen=True)
class Case:
    """An object that gives exactly one warning or denial.

    Attributes:
        name: the warning or denial.
        sentence: the problem, for the name of the test.
        path: paths of the fields that are named.
        changes: new values by path below spec, applied to a spec without warnings.
        topology: of that spec.
    """

    name: str
    sentence: str
    path: str
    changes: Mapping[str, Any]
    topology: str = D


@dataclass(frozen=True)
class Fine:
    """An object that is similar to that of a warning or denial, but gives none."""

    name: str
    sentence: str
    changes: Mapping[str, Any] = field_of(default_factory=dict)
    topology: str = D


def scaled(low: int, high: int, **fields: Any) -> dict[str, Any]:
    """Autoscaling between two numbers."""
    mode = {} if fields.get("mode") == "External" else {"metrics": [REQUESTS]}
    return {"minReplicas": low, "maxReplicas": high, **mode, **fields}


def limit(memory: str) -> dict[str, Any]:
    """Resources with a memory limit."""
    return {"limits": {"memory": memory}}


PRODUCT = "pools.1.gpu.product"
LABEL = {"pools.1.nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-GB200"}}
PRESETS = {"pools": [{"name": "gb200", "preset": "GB200"}, {"name": "rtx", "preset": "GB200"}]}
PARSER = ["--reasoning-parser", "qwen3"]
CAP = "--override-generation-config"
HUGE = {"hugepages-2Mi": "64Mi"}

WARNINGS = [
    Case("SameGPUProduct", "one product in two pools", "spec.encoder.pool, spec.pd.pool", {PRODUCT: "NVIDIA-GB200"}),
    Case("SameGPUProduct", "one product by a node label", "spec.encoder.pool, spec.pd.pool", LABEL),
    Case("SameGPUProduct", "one pool", "spec.encoder.pool, spec.pd.pool", {"encoder.pool": "gb200"}),
    Case("SameGPUProduct", "one pool without a product", "spec.encoder.pool, spec.pd.pool", {"pd.pool": "rtx"}),
    Case("SameGPUProduct", "one preset in two pools", "spec.encoder.pool, spec.pd.pool", PRESETS),
    Case("LongAnswersCoLocated", "a reasoning parser", "spec.topology", {"group.pd.args": PARSER}, C),
    Case("LongAnswersCoLocated", "Dynamo's reasoning parser", "spec.topology",
         {"runtime.args": ["--dyn_reasoning_parser=qwen3"]}, C),
    Case("LongAnswersCoLocated", "answers of up to 4096 tokens", "spec.topology",
         {"group.args": [*PARSER, f'{CAP}={{"max_new_tokens": 4096}}']}, C),
    Case("SingleReplica", "one frontend", "spec.frontend.replicas", {"frontend.replicas": 1}),
    Case("SingleReplica", "one encoder and one PD worker", "spec.encoder.replicas, spec.pd.replicas",
         {"encoder.replicas": 1, "pd.replicas": 1}),
    Case("SingleReplica", "one encoder when there is little load", "spec.encoder.autoscaling.minReplicas",
         {"encoder.autoscaling": scaled(1, 4)}),
    Case("NoMemoryLimit", "no resources", "spec.group.resources.limits.memory", {"group.resources": {}}, C),
    Case("NoMemoryLimit", "a CPU limit only", "spec.encoder.resources.limits.memory, spec.pd.resources.limits.memory",
         {"encoder.resources": {"limits": {"cpu": "8"}}, "pd.resources": {"requests": {"memory": "8Gi"}}}),
    Case("LowMemoryLimit", "a limit of the shared memory", "spec.encoder.resources.limits.memory",
         {"encoder.resources": limit("16Gi")}),
    Case("LowMemoryLimit", "a limit of shared memory and cache", "spec.pd.resources.limits.memory",
         {"pd.resources": limit("24Gi"), "pd.embeddingCache": "8Gi"}),
    Case("LowMemoryLimit", "a limit that forgets the ring", "spec.group.resources.limits.memory",
         {"group.resources": limit("70Gi"), "transfer.mode": "NixlWrite"}, C),
    *(Case("MemoryInBytes", f"a request of {amount}", "spec.encoder.resources.requests.memory",
           {"encoder.resources": {"requests": {"memory": amount}, "limits": {"memory": "256Gi"}}})
      for amount in ("64", "64000m", "1023Ki")),
    Case("MemoryInBytes", "disk in bytes", "spec.frontend.resources.limits.ephemeral-storage, "
         "spec.worker.resources.limits.ephemeral-storage",
         {"worker.resources": {"limits": {"memory": "256Gi", "ephemeral-storage": "10"}},
          "frontend.resources": {"limits": {"ephemeral-storage": "10"}}}, A),
    Case("MutableImage", "no tag", "spec.runtime.image", {"runtime.image": "registry:5000/epd/worker"}),
    Case("MutableImage", "the tag latest", "spec.runtime.image", {"runtime.image": "worker:latest"}),
    Case("MutableImage", "a stage without a tag", "spec.pd.podTemplate.image", {"pd.podTemplate.image": "r/worker"}),
    Case("MutableImage", "all pods without a tag", "spec.podTemplate.image", {"podTemplate.image": "r/worker"}),
    Case("ForeignImage", "an amd64 image on arm64", "spec.runtime.image", {"runtime.image": "r/worker:1-amd64"}, C),
    Case("ForeignImage", "an arm64 image of an amd64 stage", "spec.encoder.podTemplate.image",
         {"encoder.podTemplate.image": "r/worker-aarch64:1", "pools.1.gpu.architecture": "amd64"}),
    Case("ForeignImage", "an amd64 image on nodes of a preset", "spec.runtime.image",
         {"runtime.image": "r/worker:1-amd64", "pools": [{"name": "gb200", "preset": "GB300"}]}, C),
    Case("ForeignImage", "an image of all pods, by a node label", "spec.podTemplate.image",
         {"podTemplate.image": "r/arm64/worker:1", "pools.1.nodeSelector": {"kubernetes.io/arch": "amd64"}}),
    Case("ModelDownload", "a large model", "spec.model.storage", {"model": {"name": "Qwen/Qwen3-VL-30B-A3B"}}),
    Case("ModelDownload", "a model of unknown size", "spec.model.storage", {"model": {"name": "acme/vision-2"}}, A),
    Case("UnusedStorage", "a name beside the volume", "spec.model.name",
         {"model": {"name": "Qwen/Qwen3-VL-8B", "storage": {"claimName": "models"}}}),
    Case("UnusedStorage", "a folder beside the volume", "spec.model.name",
         {"model": {"name": "/models-2/qwen", "storage": {"claimName": "models"}}}, C),
    Case("PlainSecret", "a token for all", "spec.runtime.env",
         {"runtime.env": env("HF_TOKEN", value="hf_0123456789")}),
    Case("PlainSecret", "passwords of two processes", "spec.group.env, spec.group.pd.env",
         {"group.env": env("DB_PASSWORD", value="correct horse"),
          "group.pd.env": env("API_KEY", value="battery-staple")}, C),
    Case("PlainSecret", "a key among the arguments", "spec.pd.args", {"pd.args": ["--api-key", "secret"]}),
    Case("ValueInFlag", "a flag and its value for all", "spec.runtime.args",
         {"runtime.args": ["--max-model-len 32768"]}),
    Case("ValueInFlag", "flags of two stages", "spec.group.args, spec.group.pd.args",
         {"group.args": ["--dtype=auto", '--override-generation-config {"a": "b=c"}'],
          "group.pd.args": ["-O 3"]}, C),
    Case("UnknownTransport", "a transport that UCX does not have", "spec.transfer.ucx.transports",
         {"transfer.ucx.transports": ["rdma", "tcp"]}),
    Case("UnknownTransport", "no transport that UCX has", "spec.transfer.ucx.transports",
         {"transfer.ucx.transports": ["roce"]}),
    Case("EmbeddingsByTCP", "tcp only", "spec.transfer.ucx.transports",
         {"transfer.ucx.transports": ["tcp", "cuda_copy", "self"]}),
    Case("RDMAWithoutDevice", "RDMA only, without a device", "spec.transfer.rdmaResource",
         {"transfer.ucx.transports": ["rc", "cuda_copy", "self"]}),
    Case("UnusedRDMA", "devices for co-located groups", "spec.transfer.rdmaResource",
         {"transfer.rdmaResource": "rdma/ib"}, C),
    Case("UnusedRDMA", "devices without a transport for groups that share encoders", "spec.transfer.rdmaResource",
         {"transfer.rdmaResource": "rdma/ib", "transfer.ucx.transports": ["tcp", "self"],
          "group.encoder": {"scope": "Deployment"}}, C),
    Case("UnusedRDMA", "devices that no transport uses", "spec.transfer.rdmaResource",
         {"transfer.rdmaResource": "rdma/ib", "transfer.ucx.transports": ["tcp", "self"]}),
    Case("FrontendsWithoutTCP", "pixels without a transport", "spec.transfer.ucx.transports",
         {"frontend.mediaDecoding": "Frontend", "transfer.rdmaResource": "rdma/ib",
          "transfer.ucx.transports": ["rc", "self"]}),
    Case("NothingToScale", "equal bounds", "spec.pd.autoscaling", {"pd.autoscaling": scaled(3, 3)}),
    Case("NothingToScale", "both directions switched off", "spec.pd.autoscaling", {"pd.autoscaling": scaled(
        2, 4, behavior={"scaleUp": {"selectPolicy": "Disabled"}, "scaleDown": {"selectPolicy": "Disabled"}})}),
    Case("ReplicasOutOfBounds", "more replicas than the maximum", "spec.encoder.replicas, spec.pd.replicas",
         {"encoder.replicas": 20, "encoder.autoscaling": scaled(2, 4),
          "pd.autoscaling": scaled(1, 2, mode="External")}),
    Case("ReplicasOutOfBounds", "fewer replicas than the minimum", "spec.frontend.replicas",
         {"frontend.autoscaling": scaled(3, 4)}),
    Case("NothingToScale", "equal bounds for an external autoscaler", "spec.frontend.autoscaling",
         {"frontend.autoscaling": scaled(2, 2, mode="External")}),
    Case("NobodyScales", "latencies", "spec.slo", {"slo.interTokenLatencyMilliseconds": 100}, A),
    Case("NobodyScales", "a budget and a band", "spec.scaling.gpuBudget, spec.scaling.encodersPerPd",
         {"scaling": {"gpuBudget": 16, "encodersPerPd": {"minPercent": 50}},
          "pd.autoscaling": scaled(2, 8, mode="External")}),
    Case("NobodyScales", "latencies where only frontends scale", "spec.slo",
         {"slo.timeToFirstTokenMilliseconds": 800, "frontend.autoscaling": scaled(2, 4)}, C),
    Case("TargetAboveCapacity", "a target above what all run", "spec.pd.autoscaling.metrics",
         {"runtime.args": ["--max-num-seqs", "7"], "pd.autoscaling": scaled(2, 4)}),
    Case("TargetAboveCapacity", "a target above what PD runs", "spec.group.autoscaling.metrics",
         {"group.pd.args": ["--max-num-seqs=4"], "group.autoscaling": scaled(2, 4)}, C),
    Case("BandOutOfReach", "too few encoders", "spec.scaling.encodersPerPd",
         {"scaling.encodersPerPd.minPercent": 100, "encoder.autoscaling": scaled(2, 4), "pd.replicas": 5}),
    Case("BandOutOfReach", "too many encoders", "spec.scaling.encodersPerPd",
         {"scaling.encodersPerPd.maxPercent": 25, "encoder.replicas": 3, "pd.autoscaling": scaled(2, 8)}),
    Case("NoPrometheus", "no Prometheus server", "spec.scaling.metricsSource",
         {"scaling.metricsSource": "Prometheus", "pd.autoscaling": scaled(2, 8)}),
    Case("ShortDrain", "a short drain", "spec.drain.timeoutSeconds", {"drain.timeoutSeconds": 29}),
    Case("ShortDrain", "a drain shorter than the wait that is allowed", "spec.drain.timeoutSeconds",
         {"drain.timeoutSeconds": 60, "slo.timeToFirstTokenMilliseconds": 60000,
          "worker.autoscaling": scaled(2, 8)}, A),
    Case("UnequalFlags", "processor settings for encoders only", "spec.encoder.args, spec.pd.args",
         {"encoder.args": ["--mm-processor-kwargs", '{"max_pixels": 1}']}),
    Case("UnequalFlags", "different revisions", "spec.group.encoder.args, spec.group.pd.args",
         {"group.encoder.args": ["--revision=a"], "group.pd.args": ["--revision", "b"]}, C),
]  # fmt: skip

FINE = [
    *(Fine("nothing", f"{topology} as it should be", topology=topology) for topology in (A, C, D)),
    Fine("SameGPUProduct", "another product", {PRODUCT: "NVIDIA-RTX-PRO-6000"}),
    Fine("SameGPUProduct", "a slice of the same product",
         {PRODUCT: "NVIDIA-GB200", "pools.1.gpu.resourceName": "nvidia.com/mig-1g.23gb"}),
    Fine("SameGPUProduct", "two presets",
         {"pools": [{"name": "gb200", "preset": "GB200"}, {"name": "rtx", "preset": "RTXPro6000"}]}),
    Fine("SameGPUProduct", "one product in pools of one stage", {PRODUCT: "NVIDIA-GB200"}, A),
    Fine("LongAnswersCoLocated", "answers with a low limit",
         {"group.pd.args": [*PARSER, CAP, '{"max_new_tokens": 1024}']}, C),
    Fine("LongAnswersCoLocated", "a reasoning parser in Aggregated", {"worker.args": PARSER}, A),
    Fine("LongAnswersCoLocated", "a long context", {"group.pd.args": ["--max-model-len", "32768"]}, C),
    Fine("SingleReplica", "two at least", {"pd.replicas": 1, "pd.autoscaling": scaled(2, 4)}),
    Fine("SingleReplica", "an external autoscaler decides", {"pd.autoscaling": scaled(1, 4, mode="External")}),
    Fine("NoMemoryLimit", "frontends without a limit", {"frontend.resources": {"requests": {"memory": "1Gi"}}}),
    Fine("LowMemoryLimit", "a limit above shared memory", {"encoder.resources": limit("17Gi")}),
    Fine("LowMemoryLimit", "an encoder has no ring",
         {"encoder.resources": limit("20Gi"), "transfer.mode": "NixlWrite"}),
    Fine("LowMemoryLimit", "less shared memory", {"pd.resources": limit("16Gi"), "pd.sharedMemory": "4Gi"}),
    Fine("MutableImage", "a digest", {"runtime.image": "r/worker@sha256:" + "0" * 64}),
    Fine("MutableImage", "latest with a digest", {"runtime.image": "r/worker:latest@sha256:" + "0" * 64}),
    Fine("MutableImage", "a port and a tag", {"runtime.image": "registry:5000/worker:latest-1"}),
    Fine("MutableImage", "an image that is not used", {"runtime.image": "worker", "podTemplate.image": "worker:1"}),
    Fine("ForeignImage", "the architecture of the nodes", {"runtime.image": "r/worker:1-arm64"}, C),
    Fine("ForeignImage", "both architectures", {"runtime.image": "r/worker:1-amd64-arm64"}, C),
    Fine("ForeignImage", "nodes of unknown architecture", {"encoder.podTemplate.image": "r/worker:1-arm64"}),
    Fine("ForeignImage", "part of a word", {"runtime.image": "r/farm64/worker:amd64x"}, C),
    Fine("ModelDownload", "a folder of the image", {"model": {"name": "/opt/model"}}),
    Fine("ModelDownload", "a small model", {"model": {"name": "Qwen/Qwen2-VL-2B-Instruct"}}),
    Fine("ModelDownload", "a very small model", {"model": {"name": "acme/SmolVLM-256M"}}),
    Fine("ModelDownload", "a common cache",
         {"model": {"name": "Qwen/Qwen3-VL-8B"}, "pd.env": env("HF_HOME", value="/hub")}),
    Fine("ModelDownload", "a volume for the cache",
         {"model": {"name": "Qwen/Qwen3-VL-8B"}, "podTemplate.volumes": [{"name": "hub", "emptyDir": {}}],
          "podTemplate.volumeMounts": [mount("hub", "/var/cache/worker/huggingface")]}),
    Fine("UnusedStorage", "the volume itself", {"model": {"name": "/models", "storage": {"claimName": "m"}}}),
    Fine("UnusedStorage", "another mount path",
         {"model": {"name": "/weights/qwen", "storage": {"claimName": "m", "mountPath": "/weights/"}}}),
    Fine("UnusedStorage", "another spelling of the path",
         {"model": {"name": "//weights/./qwen", "storage": {"claimName": "m", "mountPath": "/weights/"}}}),
    Fine("UnusedStorage", "the volume itself with a slash",
         {"model": {"name": "/models/", "storage": {"claimName": "m"}}}),
    Fine("UnusedStorage", "a Hugging Face cache on the volume",
         {"model": {"name": "Qwen/Qwen3-VL-8B", "storage": {"claimName": "m"}},
          "runtime.env": env("HF_HOME", value="/models")}),
    Fine("PlainSecret", "a token from a Secret",
         {"runtime.env": env("HF_TOKEN", valueFrom={"secretKeyRef": {"name": "hf", "key": "token"}})}),
    Fine("PlainSecret", "a switch", {"runtime.env": env("HF_HUB_DISABLE_IMPLICIT_TOKEN", value="1")}),
    Fine("PlainSecret", "a number", {"runtime.env": env("MAX_TOKEN", value="1000000000")}),
    Fine("PlainSecret", "a file with a token", {"runtime.env": env("AWS_WEB_IDENTITY_TOKEN_FILE", value="/run/token")}),
    Fine("EmbeddingsByTCP", "tcp within a pod", {"transfer.ucx.transports": ["tcp", "self"]}, C),
    Fine("EmbeddingsByTCP", "RDMA first", {"transfer.ucx.transports": ["rc", "tcp"]}),
    Fine("RDMAWithoutDevice", "RDMA with a device",
         {"transfer.ucx.transports": ["rc"], "transfer.rdmaResource": "rdma/ib"}),
    Fine("RDMAWithoutDevice", "RDMA where nothing leaves the pod", {"transfer.ucx.transports": ["rc"]}, C),
    Fine("UnusedRDMA", "devices that are used", {"transfer.rdmaResource": "rdma/ib"}),
    Fine("UnusedRDMA", "devices for groups that share encoders",
         {"transfer.rdmaResource": "rdma/ib", "group.encoder": {"scope": "Deployment"}}, C),
    Fine("EmbeddingsByTCP", "another network of a pool",
         {"transfer.ucx.transports": ["tcp"], "pools.0.network": {"transports": ["rc"], "rdmaResources": ["rdma/ib"]}}),
    Fine("RDMAWithoutDevice", "the devices of a stage",
         {"transfer.ucx.transports": ["rc"], "pd.network": {"rdmaResources": ["rdma/ib"]}}),
    Fine("UnusedRDMA", "transports of a pool",
         {"transfer.rdmaResource": "rdma/ib", "transfer.ucx.transports": ["tcp"],
          "pools.0.network": {"transports": ["rc"]}}),
    Fine("FrontendsWithoutTCP", "a network of its own for frontends",
         {"frontend.mediaDecoding": "Frontend", "transfer.ucx.transports": ["rc"],
          "frontend.network": {"transports": ["tcp"]}}),
    Fine("FrontendsWithoutTCP", "pixels by tcp",
         {"frontend.mediaDecoding": "Frontend", "transfer.ucx.transports": ["rc", "tcp"]}),
    Fine("NothingToScale", "bounds that allow scaling", {"pd.autoscaling": scaled(3, 4)}),
    Fine("NothingToScale", "one direction switched off",
         {"pd.autoscaling": scaled(2, 4, behavior={"scaleDown": {"selectPolicy": "Disabled"}})}),
    Fine("ReplicasOutOfBounds", "the default below the minimum", {"pd.replicas": 1, "pd.autoscaling": scaled(2, 4)}),
    Fine("ReplicasOutOfBounds", "the minimum", {"pd.replicas": 2, "pd.autoscaling": scaled(2, 4)}),
    Fine("ReplicasOutOfBounds", "the maximum", {"pd.replicas": 4, "pd.autoscaling": scaled(2, 4)}),
    Fine("MemoryInBytes", "amounts with units, and none",
         {"encoder.resources": {"requests": {"memory": "1Mi", "cpu": "64"}, "limits": {"memory": "274877906944"}},
          "frontend.resources": {"requests": {"memory": "0"}}}),
    Fine("ValueInFlag", "flags and values with spaces",
         {"worker.args": ["--max-model-len", "32768", '--override-generation-config={"max_new_tokens": 8}',
                          "--hf-overrides", '{"a": 1}', "a b", "- a"]}, A),
    Fine("UnknownTransport", "transports and aliases of UCX",
         {"transfer.ucx.transports": ["rc_mlx5", "ud_x", "dc", "tcp", "cuda", "gdr_copy", "cma", "posix"]}),
    Fine("NobodyScales", "a latency with scaling",
         {"slo.interTokenLatencyMilliseconds": 100, "worker.autoscaling": scaled(2, 4)}, A),
    Fine("NobodyScales", "the band's defaults", {"scaling.encodersPerPd": {"minPercent": 1, "maxPercent": 100000}}),
    Fine("TargetAboveCapacity", "a target of what PD runs",
         {"pd.args": ["--max-num-seqs", "8"], "pd.autoscaling": scaled(2, 4)}),
    Fine("TargetAboveCapacity", "a value that is not a number",
         {"pd.args": ["--max-num-seqs", "auto"], "pd.autoscaling": scaled(2, 4)}),
    Fine("TargetAboveCapacity", "a flag without a number",
         {"pd.args": ["--max-num-seqs"], "pd.autoscaling": scaled(2, 4)}),
    Fine("TargetAboveCapacity", "encoders",
         {"encoder.args": ["--max-num-seqs", "2"], "encoder.autoscaling": scaled(2, 4)}),
    Fine("BandOutOfReach", "a band that just fits",
         {"scaling.encodersPerPd.minPercent": 100, "encoder.autoscaling": scaled(2, 4), "pd.replicas": 4}),
    Fine("NoPrometheus", "nothing to measure", {"scaling.metricsSource": "Prometheus"}),
    Fine("ShortDrain", "half a minute", {"drain.timeoutSeconds": 30}),
    Fine("UnequalFlags", "the same for both",
         {"encoder.args": ["--revision=a"], "pd.args": ["--revision=a", "--max-num-seqs", "8"]}),
    Fine("UnequalFlags", "flags that may differ", {"encoder.args": ["--max-num-seqs", "8"]}),
    Fine("FrontendsCutOff", "images decoded where they are needed", {"transfer.ucx.transports": ["sm", "self"]}, C),
    Fine("BudgetTooSmall", "a budget of what there is",
         {"scaling.gpuBudget": 14, "encoder.autoscaling": scaled(2, 4), "pd.gpusPerReplica": 4}),
    Fine("NoKVCache", "the KV cache of PD",
         {"pd.autoscaling": {"minReplicas": 2, "maxReplicas": 4, "metrics": [REQUESTS, KV_CACHE]}}),
    Fine("CacheAboveLimit", "a cache below the limit", {"pd.embeddingCache": "64Gi", "pd.resources": limit("96Gi")}),
    Fine("HugePages", "huge pages as Kubernetes wants them",
         {"pd.resources": {"requests": HUGE, "limits": {**HUGE, "memory": "256Gi"}}}),
    Fine("TwoMountsAtOnePath", "paths that only resemble each other",
         {"podTemplate": {"volumes": [{"name": "a"}], "volumeMounts": [
             mount("a", path) for path in ("/x/", "/x/y", "/x-2", "/models-2", "/models/a")]},
          "pd.podTemplate.volumeMounts": [mount("a", "/x")]}),
    Fine("TwoVolumeSources", "volumes of one source and of none",
         {"podTemplate.volumes": [{"name": "a"}, {"name": "b", "hostPath": {"path": "/b"}}]}),
]  # fmt: skip

DENIALS = [
    Case("FrontendsCutOff", "pixels that leave no pod", "spec.transfer.ucx.transports",
         {"frontend.mediaDecoding": "Frontend", "transfer.ucx.transports": ["cuda_ipc", "self", "sm"]}, C),
    Case("BudgetTooSmall", "a budget below the fewest", "spec.scaling.gpuBudget",
         {"scaling.gpuBudget": 13, "encoder.autoscaling": scaled(2, 4), "pd.gpusPerReplica": 4}),
    Case("NoKVCache", "the KV cache of encoders", "spec.encoder.autoscaling.metrics",
         {"encoder.autoscaling": {"minReplicas": 2, "maxReplicas": 4, "metrics": [KV_CACHE]}}),
    Case("CacheAboveLimit", "a cache as large as the container", "spec.worker.embeddingCache",
         {"worker.embeddingCache": "32Gi", "worker.resources": limit("32Gi")}, A),
    Case("HugePages", "huge pages without a limit", "spec.pd.resources",
         {"pd.resources": {"requests": HUGE, "limits": {"memory": "256Gi"}}}),
    Case("HugePages", "fewer huge pages than the limit", "spec.pd.resources",
         {"pd.resources": {"requests": HUGE, "limits": {"hugepages-2Mi": "128Mi", "memory": "256Gi"}}}),
    Case("HugePages", "nothing but huge pages", "spec.frontend.resources", {"frontend.resources": {"limits": HUGE}}),
    Case("TwoMountsAtOnePath", "one path in two spellings", "spec.pd.podTemplate.volumeMounts",
         {"pd.podTemplate": {"volumes": [{"name": "a"}], "volumeMounts": [mount("a", "/x/"), mount("a", "/x")]}}),
    Case("TwoMountsAtOnePath", "a volume over the model", "spec.podTemplate.volumeMounts",
         {"podTemplate": {"volumes": [{"name": "a"}], "volumeMounts": [mount("a", "/models/")]}}, A),
    Case("TwoMountsAtOnePath", "a model over a volume", "spec.group.podTemplate.volumeMounts",
         {"model.storage.mountPath": "/models/",
          "group.podTemplate": {"volumes": [{"name": "a"}], "volumeMounts": [mount("a", "/models")]}}, C),
    Case("TwoVolumeSources", "two sources for all pods", "spec.podTemplate.volumes",
         {"podTemplate.volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/a"}}]}),
    Case("TwoVolumeSources", "two sources for a stage", "spec.group.podTemplate.volumes",
         {"group.podTemplate.volumes": [{"name": "a", "emptyDir": {}, "configMap": {"name": "a"}}]}, C),
]  # fmt: skip


def old_object(case: Case) -> dict[str, Any]:
    """The object of a denial, older than the policies; its name is derived from the case's sentence."""
    name = "o-" + re.sub("[^a-z]+", "-", case.sentence.lower()).strip("-")
    return quiet(case.topology, dict(case.changes), name=name[:37].rstrip("-"))

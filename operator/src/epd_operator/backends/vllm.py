"""vLLM 0.31 with Dynamo 1.6.

The flags are from ``python -m dynamo.vllm --help``, and the names of the metrics from real metrics pages.
"""

from __future__ import annotations

import json

from epd_operator.backends.backend import Backend, EngineMetrics, EngineSettings
from epd_operator.backends.dynamo import Role

TRANSFER_MODES = {"NixlRead": "nixl-read", "NixlWrite": "nixl-write"}
"""Modes of ``DYN_VLLM_EMBEDDING_TRANSFER_MODE``, by their names in the API (``transfer.mode``)."""

_MODEL = "set model.name"
_TOPOLOGY = "remove it; topology decides it"
_GPU_MEMORY = "set gpuMemoryPercent of worker, pd or group.pd (encoders have no such setting)"
_ONE_ENGINE = "set gpusPerReplica for tensor parallelism, and replicas for more engines"

OWNED_FLAGS = {
    "--model": _MODEL,
    "--model-path": _MODEL,
    "--model-name": _MODEL,
    "--served-model-name": "set model.servedName",
    "--enable-multimodal": "remove it; it is always set",
    "--disaggregation-mode": _TOPOLOGY,
    "--route-to-encoder": _TOPOLOGY,
    "--enable-mm-embeds": _TOPOLOGY,
    "--headless": _TOPOLOGY,
    "--frontend-decoding": "set frontend.mediaDecoding",
    "--embedding-transfer-mode": "set transfer.mode",
    "--multimodal-embedding-cache-capacity-gb": "set embeddingCache of the stage",
    "--tensor-parallel-size": _ONE_ENGINE,
    "-tp": _ONE_ENGINE,
    "--pipeline-parallel-size": _ONE_ENGINE,
    "-pp": _ONE_ENGINE,
    "--data-parallel-size": _ONE_ENGINE,
    "-dp": _ONE_ENGINE,
    "--kv-events-config": "set frontend.routing to KV",
    "--gpu-memory-utilization": _GPU_MEMORY,
    "--device-memory-utilization": _GPU_MEMORY,
    # The parser of vLLM replaces it with the flags in the file (vllm/utils/argparse_utils.py).
    "--config": "write the flags of the file into args, because a file can set flags of the operator",
}
"""Flags that users cannot set, and what to do instead."""

LOCAL_FLAGS = frozenset(
    {
        # Memory and batches:
        *("--async-scheduling", "--cpu-offload-gb", "--enable-chunked-prefill", "--enable-prefix-caching"),
        *("--kv-cache-memory-bytes", "--long-prefill-token-threshold", "--max-num-batched-tokens", "--max-num-seqs"),
        *("--mm-processor-cache-gb", "--num-gpu-blocks-override", "--scheduling-policy"),
        # Compilation and start:
        *("--compilation-config", "--cudagraph-capture-sizes", "--enforce-eager", "--max-cudagraph-capture-size"),
        *("--max-parallel-loading-workers", "--optimization-level"),
        # Logs and metrics:
        *("--collect-detailed-traces", "--disable-log-stats", "--enable-log-requests", "--otlp-traces-endpoint"),
        *("--show-hidden-metrics-for-version",),
    }
)
"""Flags that change neither the answers of the model nor what processes send each other. All from EngineArgs in
https://github.com/vllm-project/vllm/blob/v0.31.0/vllm/engine/arg_utils.py."""

GROUP_VARIABLES = {
    # One queue of the GPU for the kernels of a process, so that processes do not wait for each other.
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    # All images of a request go to one encoder. 1, the default of Dynamo, is for encoders on GPUs of their own.
    "DYN_SPLIT_ENCODE": "0",
    # Encoders compute no tokens, so they need no warm-up of the kernels for that. PD processes do not read it.
    "DYN_VLLM_SKIP_ENCODER_ONLY_KERNEL_WARMUP": "1",
}
"""As in NVIDIA's launch scripts for encoders and PD on one GPU:
https://github.com/ai-dynamo/dynamo/blob/main/benchmarks/multimodal/sweep/experiments/epd/scripts/config.sh"""
PROCESS_CACHES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
}
"""Caches of compiled kernels, one per process as in the same scripts. HOME is common: it has the downloaded model."""

_LOCAL_ENCODERS = "epd_worker.local_encoders"
"""Dynamo's worker with a client that asks the encoders of its pod (worker_images/src/epd_worker/local_encoders.py)."""

_ROLE_FLAGS = {
    Role.WORKER: (),
    Role.ENCODER: ("--disaggregation-mode", "encode"),
    Role.PD: ("--disaggregation-mode", "pd", "--route-to-encoder", "--enable-mm-embeds"),
}


def command(settings: EngineSettings) -> list[str]:
    """The command line of a worker, encoder or PD process."""
    line = ["python3", "-m", _LOCAL_ENCODERS if settings.local_encoders else "dynamo.vllm", "--model", settings.model]
    line += ["--served-model-name", settings.served_name, "--enable-multimodal", *_ROLE_FLAGS[settings.role]]
    if settings.frontend_decoding:
        line.append("--frontend-decoding")
    if settings.gpus > 1:
        line += ["--tensor-parallel-size", str(settings.gpus)]
    if settings.embedding_cache_gib is not None:
        line += ["--multimodal-embedding-cache-capacity-gb", str(settings.embedding_cache_gib)]
    if settings.gpu_memory_percent is not None:
        # A share from 0 to 1: https://docs.vllm.ai/en/latest/configuration/engine_args/#cacheconfig
        line += ["--gpu-memory-utilization", f"{settings.gpu_memory_percent / 100:.2f}"]
    if settings.kv_events_port is not None and settings.role is not Role.ENCODER:
        line += ["--kv-events-config", _kv_events(settings.kv_events_port)]
    return [*line, *settings.args]


def _kv_events(port: int) -> str:
    """Publish what is added to and removed from the KV cache; Dynamo's part of the process passes it on to routers.

    vLLM listens only on an address with ``*`` (``ZmqEventPublisher`` in vllm/distributed/kv_events.py):
    https://docs.vllm.ai/en/latest/api/vllm/config/kv_events/.
    """
    return json.dumps(
        {"enable_kv_cache_events": True, "publisher": "zmq", "topic": "kv-events", "endpoint": f"tcp://*:{port}"}
    )


def _process_environment(transfer_mode: str, side_channel_port: int) -> dict[str, str]:
    return {
        "DYN_VLLM_EMBEDDING_TRANSFER_MODE": TRANSFER_MODES[transfer_mode],
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side_channel_port),
    }


def _encoder_memory_environment(memory_bytes: int) -> dict[str, str]:
    return {"DYN_VLLM_ENCODER_KV_CACHE_MEMORY_BYTES": str(memory_bytes)}


VLLM = Backend(
    command=command,
    # By default, vLLM uses the IP address of the default route, which is wrong on nodes with several networks.
    pod_environment={"VLLM_HOST_IP": "$(POD_IP)", "VLLM_NIXL_SIDE_CHANNEL_HOST": "$(POD_IP)"},
    process_environment=_process_environment,
    encoder_memory_environment=_encoder_memory_environment,
    group_environment=GROUP_VARIABLES,
    process_caches=PROCESS_CACHES,
    metrics=EngineMetrics(
        running="vllm:num_requests_running",
        waiting="vllm:num_requests_waiting",
        kv_cache_usage="vllm:kv_cache_usage_perc",
        queue_seconds="vllm:request_queue_time_seconds",
        prefill_seconds="vllm:request_prefill_time_seconds",
        decode_seconds="vllm:request_decode_time_seconds",
    ),
    local_flags=LOCAL_FLAGS,
    owned_flags=OWNED_FLAGS,
    owned_variable_prefixes=("VLLM_NIXL_SIDE_CHANNEL_",),
    owned_variables=(
        "VLLM_HOST_IP",
        "DYN_VLLM_ENCODER_KV_CACHE_MEMORY_BYTES",
        # The same as owned flags, in dynamo/vllm/backend_args.py.
        "DYN_VLLM_DISAGGREGATION_MODE",
        "DYN_VLLM_EMBEDDING_TRANSFER_MODE",
        "DYN_VLLM_ENABLE_MULTIMODAL",
        "DYN_VLLM_FRONTEND_DECODING",
        "DYN_VLLM_HEADLESS",
        "DYN_VLLM_MULTIMODAL_DECODE_WORKER",
        "DYN_VLLM_MULTIMODAL_ENCODE_WORKER",
        "DYN_VLLM_MULTIMODAL_WORKER",
        "DYN_VLLM_ROUTE_TO_ENCODER",
        "DYN_MULTIMODAL_EMBEDDING_CACHE_CAPACITY_GB",
    ),
)

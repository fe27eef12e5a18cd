"""The description of an inference engine that Dynamo runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from epd_operator.backends.dynamo import Role


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Settings of one engine process.

    Attributes:
        role: worker, encoder or PD.
        model: Hugging Face name, or path of a directory in the pod.
        served_name: model name that clients use.
        frontend_decoding: whether frontends decode images and send pixels.
        gpus: number of GPUs of the engine.
        embedding_cache_gib: size of the cache of image embeddings, in GiB; None means no cache.
        gpu_memory_percent: share of each GPU's memory for weights and KV cache; None leaves the engine's default.
        local_encoders: whether a PD process uses only the encoders of its pod, as long as there is one.
        kv_events_port: port on which the engine publishes what it caches, for the router; None means no events.
        args: additional arguments from the spec, in order.
    """

    role: Role
    model: str
    served_name: str
    frontend_decoding: bool = False
    gpus: int = 1
    embedding_cache_gib: int | None = None
    gpu_memory_percent: int | None = None
    local_encoders: bool = False
    kv_events_port: int | None = None
    args: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EngineMetrics:
    """Names of the metrics that an engine exports.

    Attributes:
        running: gauge of running requests.
        waiting: gauge of requests in the engine's queue.
        kv_cache_usage: gauge of the KV cache usage, 0 to 1.
        queue_seconds: histogram of the time of a request in the engine's queue.
        prefill_seconds: histogram of the time from the end of the queue to the first token.
        decode_seconds: histogram of the time from the first token to the last token.
    """

    running: str
    waiting: str
    kv_cache_usage: str
    queue_seconds: str
    prefill_seconds: str
    decode_seconds: str

    @property
    def gauges(self) -> tuple[str, ...]:
        """Names of the gauges."""
        return (self.running, self.waiting, self.kv_cache_usage)

    @property
    def histograms(self) -> tuple[str, ...]:
        """Names of the histograms, without ``_sum`` and ``_count``."""
        return (self.queue_seconds, self.prefill_seconds, self.decode_seconds)


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One engine.

    Attributes:
        command: the command line of an engine process.
        pod_environment: variables for all processes of a pod.
        process_environment: variables for one process, given the transfer mode in the API and the NIXL handshake port.
        encoder_memory_environment: variables that limit the GPU memory of an encoder, given in bytes.
        group_environment: variables of the processes of a co-located group, which users can set otherwise.
        process_caches: variables with folders below the cache folder, in which only one process may write.
        metrics: names of its metrics.
        local_flags: flags that concern one process only; on all others the processes of a revision must agree.
        owned_flags: flags that the operator sets or forbids, and for each what to do instead.
        owned_variable_prefixes: prefixes of variables that the operator sets.
        owned_variables: names of other variables that the operator sets.
    """

    command: Callable[[EngineSettings], list[str]]
    pod_environment: Mapping[str, str]
    process_environment: Callable[[str, int], dict[str, str]]
    encoder_memory_environment: Callable[[int], dict[str, str]]
    group_environment: Mapping[str, str]
    process_caches: Mapping[str, str]
    metrics: EngineMetrics
    local_flags: frozenset[str]
    owned_flags: Mapping[str, str]
    owned_variable_prefixes: tuple[str, ...]
    owned_variables: tuple[str, ...]

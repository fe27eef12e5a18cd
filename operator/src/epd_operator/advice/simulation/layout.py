"""What is deployed."""

from __future__ import annotations

from dataclasses import dataclass

from epd_operator.advice.simulation.costs import Gpu
from epd_operator.api.v1alpha1.stages import MediaDecoding, Routing
from epd_operator.api.v1alpha1.topology import Topology

MAX_PROCESSES = 10_000


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A deployment.

    Attributes:
        topology: of the deployment.
        workers: PD workers (workers of Aggregated, groups of CoLocated).
        gpu: GPU of the PD workers.
        gpus_per_worker: GPUs of each PD worker.
        encoders: all encoders; 0 in Aggregated.
        encoder_gpu: GPU of the encoders in Disaggregated.
        frontends: frontends.
        frontend_cores: CPU cores of each frontend.
        media_decoding: which process decompresses images.
        routing: how frontends choose a PD worker.
        is_encode_split: whether the images of a request are spread over all encoders (DYN_SPLIT_ENCODE).
        embedding_cache: bytes of each PD worker.
        transfer_bandwidth: bytes per second that a PD worker receives.
        max_running: requests that a PD worker runs at the same time (--max-num-seqs).
        max_tokens: tokens that a PD worker prefills in one step (--max-num-batched-tokens).
    """

    topology: Topology
    workers: int
    gpu: Gpu
    gpus_per_worker: int = 1
    encoders: int = 0
    encoder_gpu: Gpu | None = None
    frontends: int = 1
    frontend_cores: int = 8
    media_decoding: MediaDecoding = MediaDecoding.WORKER
    routing: Routing = Routing.ROUND_ROBIN
    is_encode_split: bool = True
    embedding_cache: float = 0.0
    transfer_bandwidth: float = 2.5e9
    max_running: int = 128
    max_tokens: int = 8192

    def __post_init__(self) -> None:
        for name, lowest in (
            ("workers", 1), ("gpus_per_worker", 1), ("frontends", 1), ("frontend_cores", 1), ("max_running", 1),
            ("max_tokens", 1), ("encoders", 0),
        ):  # fmt: skip
            limit = MAX_PROCESSES if name != "max_tokens" else 10_000_000
            if not lowest <= getattr(self, name) <= limit:
                raise ValueError(f"{name}: {getattr(self, name)} is not from {lowest} to {limit}")
        if (self.topology is Topology.AGGREGATED) == bool(self.encoders):
            raise ValueError("encoders: Aggregated has none, and the other topologies at least one")
        if self.topology is Topology.CO_LOCATED and self.encoders % self.workers:
            raise ValueError("encoders: all groups of CoLocated have the same number of them")
        if self.topology is Topology.DISAGGREGATED and self.encoder_gpu is None:
            raise ValueError("encoder_gpu: Disaggregated needs the GPU of its encoders")
        if not 0 <= self.embedding_cache <= 1e15:
            raise ValueError(f"embedding_cache: {self.embedding_cache:g} is not from 0 to 1e15 bytes")
        if not 1 <= self.transfer_bandwidth <= 1e15:
            raise ValueError(f"transfer_bandwidth: {self.transfer_bandwidth:g} is not from 1 to 1e15 bytes per second")

    @property
    def gpus(self) -> int:
        """All GPUs."""
        separate = self.encoders if self.topology is Topology.DISAGGREGATED else 0
        return self.workers * self.gpus_per_worker + separate

    @property
    def price(self) -> float | None:
        """Of all GPUs, per hour; None if the price of one is unknown."""
        if self.gpu.price is None:
            return None
        price = self.workers * self.gpus_per_worker * self.gpu.price
        if self.topology is not Topology.DISAGGREGATED or self.encoder_gpu is None:
            return price
        return None if self.encoder_gpu.price is None else price + self.encoders * self.encoder_gpu.price

"""The work that a request of a kind is for each process: sizes times costs, on the GPUs of a layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from epd_operator.advice.simulation.costs import Costs, Gpu, Llm
from epd_operator.advice.simulation.layout import Layout
from epd_operator.advice.simulation.traffic import Kind
from epd_operator.api.v1alpha1.stages import MediaDecoding
from epd_operator.api.v1alpha1.topology import Topology

REFERENCE_VISION = 0.46
"""Billions of parameters of the vision encoder that `Costs.encode_token` is for: that of Qwen3.5 27B (1.7 %)."""

EMBEDDING_BYTES = 2
PARALLEL_EFFICIENCY = 0.9
"""Of each further doubling of the GPUs of a worker. An assumption: no published figure has more than one GPU."""

KV_BYTES_PER_HIDDEN = 4.0
"""KV cache per token and number of the hidden state, in bytes. An assumption for models that share KV heads (GQA)."""


@dataclass(frozen=True, slots=True)
class ImageWork:
    """An image.

    Attributes:
        decode: seconds to decompress it on one core.
        cpu: seconds on one core in the process that encodes, with decompression if that process does it.
        gpu: seconds of the vision encoder.
        size: bytes of its embedding.
    """

    decode: float
    cpu: float
    gpu: float
    size: float


@dataclass(frozen=True, slots=True)
class Work:
    """A request.

    Attributes:
        kind: it, so that it lives as long as this.
        prompt: tokens of the prompt.
        output: tokens of the answer.
        prefill: seconds of PD.
        images: each image.
        parts: the images spread over the encoders, if Dynamo does that; else all of them in one part.
        frontend_decode: seconds that frontends decompress images, and the longest of a single image.
    """

    kind: Kind
    prompt: int
    output: int
    prefill: float
    images: tuple[ImageWork, ...]
    parts: tuple[ImageWork, ...]
    frontend_decode: tuple[float, float]


def speedup(gpus: int) -> float:
    """Of a worker with several GPUs."""
    return float(gpus * PARALLEL_EFFICIENCY ** (gpus.bit_length() - 1))


def work(kind: Kind, *, layout: Layout, costs: Costs, llm: Llm) -> Work:
    """The work of a request of this kind."""
    prompt = kind.text_tokens + kind.image_tokens
    in_frontend = layout.media_decoding is MediaDecoding.FRONTEND
    is_aggregated = layout.topology is Topology.AGGREGATED
    compute = _encoder_gpu(layout).compute
    vision = costs.encode_token * llm.vision_parameters / REFERENCE_VISION / compute
    if is_aggregated:
        vision /= speedup(layout.gpus_per_worker)
    images = []
    for image in kind.images:
        decode = costs.decode_megapixel * image.megapixels
        cpu = costs.prepare_megapixel * image.megapixels + (0.0 if in_frontend else decode)
        if is_aggregated:
            cpu += costs.engine_input_token * image.tokens
        images.append(ImageWork(decode, cpu, vision * image.tokens, EMBEDDING_BYTES * llm.hidden_size * image.tokens))
    return Work(
        kind=kind,
        prompt=prompt,
        output=kind.output_tokens,
        prefill=prefill_seconds(prompt, layout=layout, costs=costs, llm=llm),
        images=tuple(images),
        parts=split(images, layout=layout),
        frontend_decode=(
            (sum(image.decode for image in images), max((image.decode for image in images), default=0.0))
            if in_frontend
            else (0.0, 0.0)
        ),
    )


def total(images: Sequence[ImageWork]) -> ImageWork:
    """The sum of several images."""
    return ImageWork(
        sum(image.decode for image in images),
        sum(image.cpu for image in images),
        sum(image.gpu for image in images),
        sum(image.size for image in images),
    )


def split(images: Sequence[ImageWork], *, layout: Layout) -> tuple[ImageWork, ...]:
    """What each encoder gets of the images of a request."""
    parts = max(min(len(images), layout.encoders), 1) if layout.is_encode_split else 1
    return tuple(total(images[part::parts]) for part in range(parts))


def _encoder_gpu(layout: Layout) -> Gpu:
    return layout.encoder_gpu if layout.encoder_gpu and layout.topology is Topology.DISAGGREGATED else layout.gpu


def prefill_seconds(tokens: int, *, layout: Layout, costs: Costs, llm: Llm) -> float:
    """Prefill of a prompt."""
    seconds = costs.prefill_token * llm.active_parameters * (llm.bits / 16) * tokens
    return seconds / (layout.gpu.compute * speedup(layout.gpus_per_worker))


def step_seconds(*, layout: Layout, costs: Costs, llm: Llm) -> list[float]:
    """Length of a decode step by the number of running requests, without their KV cache.

    A step reads all weights that any of the running requests needs. With experts, more requests need more of them:
    each request leaves out the same share of the weights, independently of the others.
    """
    gigabytes = llm.parameters * llm.bits / 8
    unused = 1 - llm.active_parameters / llm.parameters
    bandwidth = layout.gpu.memory * speedup(layout.gpus_per_worker)
    return [
        0.0
        if running == 0
        else costs.step
        + costs.step_request * running
        + gigabytes * (1 - unused**running) * costs.memory_gigabyte / bandwidth
        for running in range(layout.max_running + 1)
    ]


def context_seconds(*, layout: Layout, costs: Costs, llm: Llm) -> float:
    """What each token in the KV cache adds to a step."""
    gigabytes = KV_BYTES_PER_HIDDEN * llm.hidden_size / 1e9
    return gigabytes * costs.memory_gigabyte / (layout.gpu.memory * speedup(layout.gpus_per_worker))

"""What work costs: seconds on the reference GPU (GB200) and on one CPU core, and the speed of other GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """Speed of a GPU relative to GB200.

    Attributes:
        compute: dense matrix arithmetic; decides encode and prefill.
        memory: memory bandwidth; decides decode.
        price: per GPU and hour, in any currency; None if unknown.
    """

    compute: float
    memory: float
    price: float | None = None

    def __post_init__(self) -> None:
        for name in ("compute", "memory"):
            if not 0 < getattr(self, name) <= 1000:
                raise ValueError(f"{name}: {getattr(self, name):g} is not above 0 and up to 1000")
        if self.price is not None and not 0 <= self.price <= 1e6:
            raise ValueError(f"price: {self.price:g} is not from 0 to 1000000")


@dataclass(frozen=True, kw_only=True)
class Llm:
    """The language model.

    Attributes:
        parameters: billions of parameters, all experts included.
        active_parameters: billions of parameters that one token uses.
        bits: bits of a weight: 16 (BF16), 8 (FP8) or 4 (NVFP4). Arithmetic is as much faster as weights are smaller.
        hidden_size: numbers in the embedding of a token, 2 bytes each.
        vision_parameters: billions of parameters of the vision encoder, which stays in BF16.
    """

    parameters: float
    active_parameters: float
    bits: int
    hidden_size: int
    vision_parameters: float

    def __post_init__(self) -> None:
        if not 0 < self.active_parameters <= self.parameters <= 1e5:
            raise ValueError("active_parameters, parameters: not above 0, or more parameters are active than there are")
        if not 4 <= self.bits <= 32:
            raise ValueError(f"bits: {self.bits} is not from 4 to 32")
        if not 1 <= self.hidden_size <= 1_000_000:
            raise ValueError(f"hidden_size: {self.hidden_size} is not from 1 to 1000000")
        if not 0 < self.vision_parameters <= 1000:
            raise ValueError(f"vision_parameters: {self.vision_parameters:g} is not above 0 and up to 1000")


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The constants of the model, in seconds if nothing else is said.

    Attributes:
        request: before anything else, in the frontend: HTTP, chat template, splitting text into tokens.
        decode_megapixel: decompress an image, on one core.
        prepare_megapixel: scale, normalise and cut an image into patches, on one core.
        engine_input_token: pass the pixels of one image token to the engine process; only if the engine encodes.
        encode_token: vision encoder with `REFERENCE_VISION` parameters, per image token, on one GB200.
        prefill_token: per token and billion active parameters in 16 bits, on one GB200.
        step: fixed part of a step of the engine.
        step_request: part of a step for each running request.
        memory_gigabyte: read a gigabyte of GPU memory, on GB200.
        handover: ask an encoder and learn that its embedding is ready, without the transfer.
        pd_per_preparation: how much longer steps of a worker of Aggregated take while its process prepares images.
        pd_per_encoder: how much longer steps of PD take for each encoder that encodes on the same GPU.
        pd_shared: how much longer steps of PD always take if encoders share its GPU.
        encoder_shared: how much longer encoding takes while PD works on the same GPU.
    """

    request: float
    decode_megapixel: float
    prepare_megapixel: float
    engine_input_token: float
    encode_token: float
    prefill_token: float
    step: float
    step_request: float
    memory_gigabyte: float
    handover: float
    pd_per_preparation: float
    pd_per_encoder: float
    pd_shared: float
    encoder_shared: float
    gpus: dict[str, Gpu] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, float) and not 0 <= value <= 1000:
                raise ValueError(f"{item.name}: {value:g} is not from 0 to 1000")

"""The traffic file of ``epdctl simulate``: what arrives, prices and speeds of GPUs, and the model."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from epd_operator.advice.simulation.costs import Gpu, Llm
from epd_operator.advice.simulation.traffic import MAX_IMAGES, MAX_RATE, MAX_TOKENS, PIXELS_PER_TOKEN, Image, Kind

MAX_REQUESTS = 10_000_000
"""Of a run: some minutes."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
Pixels = Annotated[int, Field(ge=1, le=100_000)]


class Fields(BaseModel):
    """A part of an input file: camelCase, and no unknown fields."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, frozen=True)


class ImageSize(Fields):
    """Size of an image: its pixels, its tokens, or both if the model scales it down."""

    width: Pixels | None = None
    height: Pixels | None = None
    tokens: Tokens | None = None

    @model_validator(mode="after")
    def _has_a_size(self) -> ImageSize:
        if (self.width is None) != (self.height is None):
            raise ValueError("set both width and height, or neither")
        if self.width is None and self.tokens is None:
            raise ValueError("set width and height, or tokens")
        return self

    def image(self) -> Image:
        """The image. One token stands for 32 x 32 pixels."""
        pixels = self.width * self.height if self.width and self.height else PIXELS_PER_TOKEN * (self.tokens or 1)
        return Image(tokens=self.tokens or math.ceil(pixels / PIXELS_PER_TOKEN), megapixels=pixels / 1e6)


class Images(ImageSize):
    """The images of each request of a kind."""

    count: Annotated[int, Field(ge=1, le=MAX_IMAGES)] = 1
    different: Annotated[int, Field(ge=1, le=10**9)] | None = None


class RequestKind(Fields):
    """A kind of request."""

    name: Annotated[str, Field(min_length=1, max_length=60)] = "requests"
    share: Annotated[Positive, Field(le=1e9)] = 1.0
    text_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)]
    output_tokens: Tokens
    images: Images | None = None

    def kind(self) -> Kind:
        """As the model needs it."""
        images = self.images
        return Kind(
            text_tokens=self.text_tokens,
            output_tokens=self.output_tokens,
            images=(images.image(),) * images.count if images else (),
            share=self.share,
            different_images=images.different if images else None,
        )


class Arrivals(StrEnum):
    """When requests arrive."""

    POISSON = "Poisson"
    CONSTANT = "Constant"


class Traffic(Fields):
    """What arrives: kinds of requests at a rate, or a trace."""

    rate: Annotated[Positive, Field(le=MAX_RATE)] | None = None
    arrivals: Arrivals = Arrivals.POISSON
    duration_seconds: Annotated[Positive, Field(le=1e8)] = 3600.0
    warm_up_seconds: Annotated[float, Field(ge=0, le=1e8, allow_inf_nan=False)] = 0.0
    requests: Annotated[list[RequestKind], Field(min_length=1, max_length=1000)] | None = None
    trace: Annotated[str, Field(min_length=1, max_length=4096)] | None = None

    @model_validator(mode="after")
    def _is_generated_or_a_trace(self) -> Traffic:
        if (self.trace is None) == (self.requests is None):
            raise ValueError("set requests and rate, or trace")
        if self.requests is not None and self.rate is None:
            raise ValueError("requests need a rate, in requests per second")
        if self.trace is not None and (unused := self.model_fields_set & {"rate", "arrivals", "duration_seconds"}):
            raise ValueError(f"{', '.join(to_camel(name) for name in sorted(unused))}: a trace has its own times")
        if (self.rate or 0) * self.duration_seconds > MAX_REQUESTS:
            raise ValueError(f"rate, durationSeconds: more than {MAX_REQUESTS} requests: use a shorter duration")
        if self.requests is not None and self.warm_up_seconds >= self.duration_seconds:
            raise ValueError("warmUpSeconds: the warm-up is as long as the whole run")
        return self


class GpuProduct(Fields):
    """A GPU: its price, and its speed if it is not a known one."""

    product: Annotated[str, Field(min_length=1, max_length=63)]
    compute: Annotated[Positive, Field(le=1000)] | None = None
    memory: Annotated[Positive, Field(le=1000)] | None = None
    price_per_hour: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = None

    def gpu(self, known: Gpu | None) -> Gpu | None:
        """As the model needs it; None if its speed is unknown."""
        compute = self.compute or (known.compute if known else None)
        memory = self.memory or (known.memory if known else None)
        if compute is None or memory is None:
            return None
        return Gpu(compute=compute, memory=memory, price=self.price_per_hour)


class Model(Fields):
    """The language model, if its name is unknown. Parameters in billions."""

    parameters: Annotated[Positive, Field(le=1e5)]
    active_parameters: Annotated[Positive, Field(le=1e5)] | None = None
    bits: Annotated[int, Field(ge=4, le=16)] = 16
    hidden_size: Annotated[int, Field(ge=1, le=1_000_000)]
    vision_parameters: Annotated[Positive, Field(le=1000)]

    @model_validator(mode="after")
    def _has_no_more_active_parameters(self) -> Model:
        if self.active_parameters is not None and self.active_parameters > self.parameters:
            raise ValueError("activeParameters: more than parameters")
        return self

    def llm(self) -> Llm:
        """As the simulator needs it."""
        return Llm(
            parameters=self.parameters,
            active_parameters=self.active_parameters or self.parameters,
            bits=self.bits,
            hidden_size=self.hidden_size,
            vision_parameters=self.vision_parameters,
        )


class Objective(Fields):
    """What a good request keeps. Without it, the objective of the EPDDeployment counts."""

    inter_token_latency_milliseconds: Annotated[Positive, Field(le=1e6)] | None = None
    time_to_first_token_milliseconds: Annotated[Positive, Field(le=1e8)] | None = None


class TrafficFile(Fields):
    """The whole file."""

    traffic: Traffic
    slo: Objective | None = None
    model: Model | None = None
    gpus: Annotated[tuple[GpuProduct, ...], Field(max_length=100)] = ()
    transfer_gigabits_per_second: Annotated[Positive, Field(le=1e6)] = 20.0
    frontend_cores: Annotated[int, Field(ge=1, le=10_000)] = 8

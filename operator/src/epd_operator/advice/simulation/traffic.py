"""Requests and when they arrive."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

PIXELS_PER_TOKEN = 1024
"""One token per 32 x 32 pixels: patches of 16 pixels, merged two by two, as in Qwen3-VL and Qwen3.5."""

MAX_TOKENS = 10_000_000
MAX_IMAGES = 1000
MAX_MEGAPIXELS = 1000.0
MAX_RATE = 1e5


class RandomSource(Protocol):
    """A seeded source of random numbers, such as `random.Random`."""

    def random(self) -> float:
        """A number from 0 to 1, without 1."""
        ...


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image of a request.

    Attributes:
        tokens: tokens in the prompt, after scaling.
        megapixels: size of the file's image, before scaling; decides how long the CPU works on it.
    """

    tokens: int
    megapixels: float

    def __post_init__(self) -> None:
        if not 1 <= self.tokens <= MAX_TOKENS:
            raise ValueError(f"tokens: {self.tokens} is not from 1 to {MAX_TOKENS}")
        if not 0 < self.megapixels <= MAX_MEGAPIXELS:
            raise ValueError(f"megapixels: {self.megapixels:g} is not above 0 and up to {MAX_MEGAPIXELS:g}")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Requests of the same size.

    Attributes:
        text_tokens: tokens of text in the prompt.
        images: the images of one request.
        output_tokens: tokens that the request generates.
        share: its part of all requests, in any unit.
        different_images: number of images from which those of a request are drawn; None if no image repeats.
    """

    text_tokens: int
    output_tokens: int
    images: tuple[Image, ...] = ()
    share: float = 1.0
    different_images: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.text_tokens <= MAX_TOKENS:
            raise ValueError(f"text_tokens: {self.text_tokens} is not from 0 to {MAX_TOKENS}")
        if not 1 <= self.output_tokens <= MAX_TOKENS:
            raise ValueError(f"output_tokens: {self.output_tokens} is not from 1 to {MAX_TOKENS}")
        if len(self.images) > MAX_IMAGES:
            raise ValueError(f"images: {len(self.images)} is more than {MAX_IMAGES}")
        if not self.text_tokens and not self.images:
            raise ValueError("text_tokens, images: a request needs at least one token or image")
        if not 0 < self.share <= 1e9:
            raise ValueError(f"share: {self.share:g} is not a positive number")
        if self.different_images is not None and not 1 <= self.different_images <= 1e9:
            raise ValueError(f"different_images: {self.different_images} is not from 1 to 1000000000")

    @property
    def image_tokens(self) -> int:
        """Tokens of all images."""
        return sum(image.tokens for image in self.images)


Keys = tuple[int | str, ...]
"""Identity of each image of a request, by which an embedding cache finds it."""

Arrival = tuple[float, Kind, Keys | None]
"""Time in seconds, kind of the request, and the identity of its images; None if no image is seen twice."""


def generated(
    kinds: Sequence[Kind], *, rate: float, duration: float, source: RandomSource, is_constant: bool = False
) -> Iterator[Arrival]:
    """Requests at a mean rate (requests per second), from time 0 to `duration`.

    Args:
        kinds: what arrives, drawn by share.
        rate: requests per second.
        duration: seconds.
        source: random numbers.
        is_constant: equal distances instead of random ones (a Poisson process).

    Raises:
        ValueError: no kinds, or a rate or duration that cannot be.
    """
    if not kinds:
        raise ValueError("requests: the list is empty: give at least one kind")
    if not 0 < rate <= MAX_RATE:
        raise ValueError(f"rate: {rate:g} is not above 0 and up to {MAX_RATE:g} requests per second")
    if not 0 < duration <= 1e9:
        raise ValueError(f"duration: {duration:g} is not above 0 and up to 1e9 seconds")
    return _generated(tuple(kinds), rate=rate, duration=duration, source=source, is_constant=is_constant)


def _generated(
    kinds: tuple[Kind, ...], *, rate: float, duration: float, source: RandomSource, is_constant: bool
) -> Iterator[Arrival]:
    limits = list(accumulate(kind.share for kind in kinds))
    random, log, total = source.random, math.log, limits[-1]
    only = kinds[0] if len(kinds) == 1 else None
    number = 0
    now = 0.0
    while True:
        number += 1
        now = number / rate if is_constant else now - log(1.0 - random()) / rate
        if now >= duration:
            return
        kind = only or kinds[min(bisect_right(limits, random() * total), len(kinds) - 1)]
        different = kind.different_images
        keys = tuple(int(random() * different) for _ in kind.images) if different else None
        yield now, kind, keys

"""What a run measured."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, kw_only=True)
class Slo:
    """What a good request keeps, in seconds. ITL is the mean of one request. None: no limit."""

    itl: float | None = None
    ttft: float | None = None

    def __post_init__(self) -> None:
        for name in ("itl", "ttft"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1e6:
                raise ValueError(f"{name}: {value:g} is not above 0 and up to 1e6 seconds")


@dataclass(frozen=True)
class Distribution:
    """Of a latency, in seconds."""

    mean: float
    percentiles: dict[int, float]

    @classmethod
    def of(cls, values: Sequence[float]) -> Distribution | None:
        """Of these values (nearest rank); None if there are none."""
        if not values:
            return None
        ordered = sorted(values)
        ranks = {percent: max(0, math.ceil(len(ordered) * percent / 100) - 1) for percent in PERCENTILES}
        return cls(math.fsum(ordered) / len(ordered), {percent: ordered[rank] for percent, rank in ranks.items()})


@dataclass
class Latencies:
    """Of the requests with media, or of those without."""

    ttft: array[float] = field(default_factory=lambda: array("d"))
    itl: array[float] = field(default_factory=lambda: array("d"))
    e2e: array[float] = field(default_factory=lambda: array("d"))


@dataclass
class Phases:
    """Seconds until the first token, summed over the counted requests. Together they are the TTFT.

    Attributes:
        frontend: text, and decoding of images if the frontend decodes them.
        media_queue: waiting for an encoder, or in Aggregated for the process that prepares images.
        media: preparing images and, in an encoder, encoding them.
        transfer: of embeddings.
        pd_queue: waiting for the engine.
        prefill: the step of the engine with the prefill, and in Aggregated with the encoding.
    """

    frontend: float = 0.0
    media_queue: float = 0.0
    media: float = 0.0
    transfer: float = 0.0
    pd_queue: float = 0.0
    prefill: float = 0.0


@dataclass
class Result:
    """Of a run.

    Attributes:
        media: latencies of requests with images.
        text: latencies of requests without images.
        good: requests that kept the SLO.
        good_while_loaded: requests that kept the SLO and ended between the warm-up and the last arrival.
        loaded: from the warm-up to the last arrival.
        span: from the first counted arrival to the end of the last counted request, or to the end of the traffic.
        prompt_tokens: of counted requests.
        output_tokens: of counted requests.
        phases: where the time to the first token was spent.
        images: images of all requests, and those that were in the cache.
        utilisation: busy share of the time of each stage, from 0 to 1.
        elapsed: simulated seconds.
    """

    media: Latencies = field(default_factory=Latencies)
    text: Latencies = field(default_factory=Latencies)
    good: int = 0
    good_while_loaded: int = 0
    loaded: float = 0.0
    span: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0
    phases: Phases = field(default_factory=Phases)
    images: int = 0
    cached_images: int = 0
    utilisation: dict[str, float] = field(default_factory=dict)
    elapsed: float = 0.0

    @property
    def requests(self) -> int:
        """Counted requests."""
        return len(self.media.ttft) + len(self.text.ttft)

    @property
    def goodput(self) -> float:
        """Good requests per second."""
        return self.good / self.span if self.span > 0 else 0.0

    @property
    def steady_goodput(self) -> float:
        """Good requests per second without the end of the run, in which the load falls."""
        return self.good_while_loaded / self.loaded if self.loaded > 0 else 0.0

    def distribution(self, latency: str, of: str = "all") -> Distribution | None:
        """Of a latency (ttft, itl, e2e) of all, media or text requests; None if there are no such requests."""
        parts = [getattr(self, name) for name in ("media", "text") if of in (name, "all")]
        values = array("d")
        for part in parts:
            values.extend(getattr(part, latency))
        return Distribution.of(values)

    def mean(self, latency: str, of: str = "all") -> float:
        """Mean of a latency, in seconds; 0 if there are no such requests."""
        found = self.distribution(latency, of)
        return found.mean if found else 0.0

    def price_per_million(self, price_per_hour: float, tokens: int) -> float | None:
        """What a million tokens cost if all GPUs cost `price_per_hour`; None if there were none."""
        return price_per_hour * self.span / 3600 / tokens * 1e6 if tokens else None

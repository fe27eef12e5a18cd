"""What the simulator says for each published figure that is a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from epd_operator.api.v1alpha1.stages import MediaDecoding
from published.experiments import (
    AGGREGATED,
    CO_LOCATED,
    DISAGGREGATED,
    IMAGE_HEAVY,
    LLM_4B,
    LLM_27B,
    MIXED,
    Bench,
    kind,
)

SHORT, LONG = (kind(images=5, output=128),), (kind(images=5, output=2048),)


def _goodput_ratio(bench: Bench, **options: object) -> float:
    return bench.ratio(lambda one: bench.goodput(one, **options), CO_LOCATED)  # type: ignore[arg-type]


def _pull_request_ratio(bench: Bench, latency: str) -> float:
    return bench.ratio(lambda one: bench.pull_request(one).mean(latency), CO_LOCATED)


def _p99_ratio(bench: Bench) -> float:
    before, after = (
        bench.encoders_only(mode).distribution("ttft") for mode in (MediaDecoding.WORKER, MediaDecoding.FRONTEND)
    )
    return after.percentiles[99] / before.percentiles[99] if before and after else 0.0


PREDICTIONS: Mapping[str, Callable[[Bench], float]] = {
    "image-heavy requests, CoLocated, TTFT": lambda b: b.latency_ratio(CO_LOCATED, "ttft", IMAGE_HEAVY),
    "image-heavy requests, Disaggregated, TTFT": lambda b: b.latency_ratio(DISAGGREGATED, "ttft", IMAGE_HEAVY),
    "image-heavy requests, Disaggregated, goodput": lambda b: b.ratio(b.goodput, DISAGGREGATED),
    "output of 128 tokens, Disaggregated, E2E": lambda b: b.latency_ratio(DISAGGREGATED, "e2e", SHORT),
    "output of 2048 tokens, Disaggregated, E2E": lambda b: b.latency_ratio(DISAGGREGATED, "e2e", LONG),
    "output of 128 tokens, CoLocated, E2E": lambda b: b.latency_ratio(CO_LOCATED, "e2e", SHORT),
    "output of 2048 tokens, CoLocated, E2E": lambda b: b.latency_ratio(CO_LOCATED, "e2e", LONG),
    "Qwen3.5 4B, CoLocated, goodput": lambda b: _goodput_ratio(b, llm=LLM_4B),
    "Qwen3.5 27B, CoLocated, goodput": lambda b: _goodput_ratio(b, llm=LLM_27B),
    "LLM in NVFP4 and ViT in BF16, CoLocated, goodput": _goodput_ratio,
    "mixed traffic, Aggregated, TTFT of text": lambda b: 1000 * b.latencies(AGGREGATED, MIXED).mean("ttft", "text"),
    "mixed traffic, CoLocated, TTFT of text": lambda b: b.latency_ratio(CO_LOCATED, "ttft", MIXED, "text"),
    "encoders only, media decoded one after another, mean": lambda b: (
        1000 * b.encoders_only(MediaDecoding.WORKER).mean("ttft")
    ),
    "encoders only, media decoded in parallel, mean": lambda b: (
        1000 * b.encoders_only(MediaDecoding.FRONTEND).mean("ttft")
    ),
    "encoders only, media decoded in parallel, P99": _p99_ratio,
    "share of TTFT before the ViT": Bench.share_before_vit,
    "one GB200, 5 images, Aggregated, TTFT": lambda b: 1000 * b.pull_request(AGGREGATED).mean("ttft"),
    "one GB200, 5 images, Aggregated, E2E": lambda b: 1000 * b.pull_request(AGGREGATED).mean("e2e"),
    "one GB200, 5 images, CoLocated, TTFT": lambda b: _pull_request_ratio(b, "ttft"),
    "one GB200, 5 images, CoLocated, E2E": lambda b: _pull_request_ratio(b, "e2e"),
}

"""The published experiments, repeated by the simulator. Conditions: docs/simulator-calibration.md."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from epd_operator.advice.simulation.costs import Costs, Gpu, Llm
from epd_operator.advice.simulation.goodput import highest_goodput
from epd_operator.advice.simulation.layout import Layout
from epd_operator.advice.simulation.results import Result, Slo
from epd_operator.advice.simulation.simulate import simulate
from epd_operator.advice.simulation.traffic import Image, Kind, generated
from epd_operator.api.v1alpha1.stages import MediaDecoding
from epd_operator.api.v1alpha1.topology import Topology

AGGREGATED, CO_LOCATED, DISAGGREGATED = Topology
MEGAPIXELS = 1700 * 2200 / 1e6
PAGE = 3652
"""Tokens of a page that is not scaled down."""

SLO = Slo(itl=0.1)
GB200 = Gpu(compute=1.0, memory=1.0)
LLM_122B = Llm(parameters=122, active_parameters=10, bits=4, hidden_size=3072, vision_parameters=0.46)
LLM_27B = Llm(parameters=27, active_parameters=27, bits=16, hidden_size=5120, vision_parameters=0.46)
LLM_4B = Llm(parameters=4, active_parameters=4, bits=16, hidden_size=2560, vision_parameters=0.29)


def kind(*, images: int, tokens: int = 256, text: int = 9000, output: int = 1024) -> Kind:
    """Requests of the harness."""
    page = Image(tokens=tokens, megapixels=MEGAPIXELS)
    return Kind(text_tokens=text, output_tokens=output, images=(page,) * images)


IMAGE_HEAVY = (kind(images=10),)
MIXED = (kind(images=5, text=1000), kind(images=0, text=1000))


def source() -> random.Random:
    """Equal random numbers for all runs."""
    return random.Random(20260916)


@dataclass(frozen=True)
class Bench:
    """Four GB200, or a part of them.

    Attributes:
        costs: constants of the model.
        rate: requests per second and GB200 at which the article measured latencies.
        encoder_gpu: RTX 6000D.
        requests: requests of a run.
    """

    costs: Costs
    rate: float
    encoder_gpu: Gpu
    requests: int = 1200

    def layout(self, topology: Topology, *, workers: int = 4) -> Layout:
        """The article's deployments."""
        encoders = {AGGREGATED: 0, CO_LOCATED: 2 * workers, DISAGGREGATED: 2}[topology]
        return Layout(
            topology=topology,
            workers=workers,
            gpu=GB200,
            encoders=encoders,
            encoder_gpu=self.encoder_gpu,
            media_decoding=MediaDecoding.FRONTEND,
            frontend_cores=32,
            is_encode_split=False,
            max_tokens=131072,
        )

    def latencies(
        self,
        topology: Topology,
        kinds: tuple[Kind, ...],
        *,
        rate: float | None = None,
        requests: int = 0,
        layout: Layout | None = None,
    ) -> Result:
        """A run at the article's rate, or at another one per GB200."""
        total = 4 * (self.rate if rate is None else rate)
        duration = (requests or self.requests) / total
        return simulate(
            generated(kinds, rate=total, duration=duration, source=source()),
            layout=layout or self.layout(topology),
            costs=self.costs,
            llm=LLM_122B,
            source=source(),
            slo=SLO,
            warm_up=0.3 * duration,
        )

    def goodput(self, topology: Topology, *, llm: Llm = LLM_122B, layout: Layout | None = None) -> float:
        """The highest goodput with image-heavy requests."""
        found = highest_goodput(
            IMAGE_HEAVY,
            layout=layout or self.layout(topology),
            costs=self.costs,
            llm=llm,
            slo=SLO,
            source=source,
            requests=self.requests,
            first_rate=4.0,
        )
        return found.goodput

    def ratio(self, measure: Callable[[Topology], float], topology: Topology) -> float:
        """Of a topology to Aggregated."""
        base = measure(AGGREGATED)
        return measure(topology) / base if base else 0.0

    def latency_ratio(self, topology: Topology, latency: str, kinds: tuple[Kind, ...], of: str = "all") -> float:
        """Of a mean latency."""
        return self.ratio(lambda one: self.latencies(one, kinds).mean(latency, of), topology)

    def pull_request(self, topology: Topology) -> Result:
        """PR 13466: one GB200, a request every two seconds."""
        kinds = (kind(images=5, tokens=PAGE),)
        return simulate(
            generated(kinds, rate=0.5, duration=240, source=source(), is_constant=True),
            layout=self.layout(topology, workers=1),
            costs=self.costs,
            llm=LLM_122B,
            source=source(),
            warm_up=60,
        )

    def encoders_only(self, media_decoding: MediaDecoding) -> Result:
        """Two encoders on one GB200, and a PD worker without work, at half of the rate that they can encode."""
        kinds = (kind(images=30, text=0, output=1),)
        costs = replace(self.costs, request=0.0, handover=0.0, prefill_token=0.0, step=0.0, step_request=0.0,
                        memory_gigabyte=0.0, pd_per_encoder=0.0, pd_shared=0.0, encoder_shared=0.0)  # fmt: skip
        layout = replace(self.layout(CO_LOCATED, workers=1), media_decoding=media_decoding, transfer_bandwidth=1e15)
        c = self.costs
        seconds = 30 * (MEGAPIXELS * (c.decode_megapixel + c.prepare_megapixel) + 256 * c.encode_token)
        rate = 0.5 * 2 / seconds if seconds else 1.0
        return simulate(
            generated(kinds, rate=rate, duration=4 * self.requests / rate, source=source()),
            layout=layout,
            costs=costs,
            llm=LLM_122B,
            source=source(),
        )

    def share_before_vit(self) -> float:
        """Part of the TTFT of Aggregated before the engine may encode."""
        result = self.latencies(AGGREGATED, IMAGE_HEAVY)
        phases = result.phases
        before = phases.frontend + phases.media_queue + phases.media
        return before / result.requests / result.mean("ttft") if result.requests else 0.0

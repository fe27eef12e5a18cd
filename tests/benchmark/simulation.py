"""How long simulated hours take: ``make simulator-bench``. The result is written down in docs/simulate.md."""

from __future__ import annotations

import random
import sys
import time

from epd_operator.advice.simulation.known import COSTS, GPUS, MODELS
from epd_operator.advice.simulation.layout import Layout
from epd_operator.advice.simulation.simulate import simulate
from epd_operator.advice.simulation.traffic import Image, Kind, generated
from epd_operator.api.v1alpha1.topology import Topology

RATE = 10.0
PHOTO = Image(tokens=1024, megapixels=2.0)
KINDS = (
    Kind(text_tokens=800, output_tokens=300, images=(PHOTO,)),
    Kind(text_tokens=800, output_tokens=300, share=1),
)


def main() -> None:
    """Simulate so many hours with each topology."""
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 100.0
    for topology in Topology:
        layout = Layout(
            topology=topology,
            workers=4,
            gpu=GPUS["GB200"],
            encoders={Topology.AGGREGATED: 0, Topology.CO_LOCATED: 8, Topology.DISAGGREGATED: 2}[topology],
            encoder_gpu=GPUS["RTX-6000D"],
        )
        start = time.process_time()
        result = simulate(
            generated(KINDS, rate=RATE, duration=hours * 3600, source=random.Random(1)),
            layout=layout,
            costs=COSTS,
            llm=MODELS["qwen3.5-122b-a10b"],
            source=random.Random(2),
        )
        simulated = time.process_time() - start
        found = result.distribution("ttft")
        assert found is not None
        measured = time.process_time() - start - simulated
        print(
            f"{topology}: {hours:g} hours, {result.requests} requests: {simulated:.1f} s CPU "
            f"({simulated / result.requests * 1e6:.1f} us per request), percentiles {measured:.1f} s"
        )


if __name__ == "__main__":
    main()

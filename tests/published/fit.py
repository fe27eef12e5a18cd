"""Fits the constants of the simulator to the published figures that calibrate: ``make simulator-fit``.

It uses no other figure. The constants are found by a simplex search (Nelder and Mead) on their logarithms; the error of
a figure is the logarithm of predicted by published, so that ratios and times count alike.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import yaml

from epd_operator.advice.simulation.costs import Costs, Gpu
from published.experiments import Bench
from published.prediction import PREDICTIONS

FIGURES = yaml.safe_load(Path(__file__).with_name("figures.yaml").read_text())["figures"]
CALIBRATING = {figure["name"]: figure["value"] for figure in FIGURES if figure["role"] == "calibrates"}

START = {
    "decode_megapixel": 5e-4,
    "prepare_megapixel": 1.2e-3,
    "engine_input_token": 4e-5,
    "encode_token": 8e-6,
    "prefill_token": 2.3e-6,
    "step": 4e-3,
    "pd_per_preparation": 0.8,
    "pd_per_encoder": 0.4,
    "pd_shared": 0.07,
    "encoder_shared": 0.15,
    "request": 0.05,
    "rate": 1.5,
    "rtx": 0.33,
}
"""Found by earlier runs with shorter simulations."""

SHARED, FAIR_SHARE = ("pd_per_preparation", "pd_per_encoder", "encoder_shared", "pd_shared"), 1.0
"""Two processes that share a GPU or an interpreter fairly take at most twice as long, which is 1 more."""

FIXED = {"step_request": 3e-5, "memory_gigabyte": 1 / 8000 / 0.7, "handover": 0.003}


def bench(values: dict[str, float], *, requests: int = 1000) -> Bench:
    """The experiments with these constants."""
    constants = {name: value for name, value in values.items() if name not in ("rate", "rtx")}
    rtx = Gpu(compute=values["rtx"], memory=0.17)
    return Bench(costs=Costs(**constants, **FIXED), rate=values["rate"], encoder_gpu=rtx, requests=requests)


def predict(name: str, one: Bench) -> float:
    """What the simulator says for a figure."""
    return PREDICTIONS[name](one)


def errors(one: Bench, pool: Executor) -> dict[str, float]:
    """The error of each figure that calibrates."""
    predicted = pool.map(predict, CALIBRATING, [one] * len(CALIBRATING))
    return {
        name: math.log(max(value, 1e-9) / CALIBRATING[name]) for name, value in zip(CALIBRATING, predicted, strict=True)
    }


def loss(point: Sequence[float], pool: Executor) -> float:
    """Of the constants with these logarithms."""
    values = {name: min(math.exp(x), 1e3) for name, x in zip(START, point, strict=True)}
    if values["rate"] > 20 or any(values[name] > FAIR_SHARE for name in SHARED):
        return 1e3
    return sum(error * error for error in errors(bench(values), pool).values())


def nelder_mead(
    function: Callable[[Sequence[float]], float], start: Sequence[float], *, size: float, rounds: int
) -> list[float]:
    """The point with the least value that a simplex search finds."""

    def towards(factor: float, worst: list[float], centre: list[float]) -> tuple[float, list[float]]:
        point = [c + factor * (w - c) for c, w in zip(centre, worst, strict=True)]
        return function(point), point

    simplex = [list(start)] + [[x + (size if n == m else 0.0) for n, x in enumerate(start)] for m in range(len(start))]
    ranked = sorted((function(point), point) for point in simplex)
    for number in range(rounds):
        centre = [sum(point[n] for _, point in ranked[:-1]) / (len(ranked) - 1) for n in range(len(start))]
        worst = ranked[-1][1]

        new = towards(-1, worst, centre)
        if new[0] < ranked[0][0]:
            new = min(new, towards(-2, worst, centre))
        elif new[0] >= ranked[-2][0]:
            new = min(new, towards(0.5, worst, centre), towards(-0.5, worst, centre))
        if new[0] < ranked[-1][0]:
            ranked[-1] = new
        else:
            best = ranked[0][1]
            shrunk = [[(x + b) / 2 for x, b in zip(point, best, strict=True)] for _, point in ranked[1:]]
            ranked[1:] = [(function(point), point) for point in shrunk]
        ranked.sort()
        if number % 10 == 0:
            values = ", ".join(f"{math.exp(x):.4g}" for x in ranked[0][1])
            print(f"{number}: {ranked[0][0]:.4f} at {values}", file=sys.stderr, flush=True)
    return ranked[0][1]


def main() -> None:
    """Print the constants and the errors of the figures that calibrate."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with ProcessPoolExecutor() as pool:
        point = [math.log(value) for value in START.values()]
        point = nelder_mead(lambda place: loss(place, pool), point, size=0.3, rounds=rounds)
        values = {name: math.exp(x) for name, x in zip(START, point, strict=True)}
        for name, value in values.items():
            print(f"{name}: {value:.4g}")
        for name, error in errors(bench(values), pool).items():
            print(f"{name}: published {CALIBRATING[name]:g}, {math.expm1(error):+.1%}")


if __name__ == "__main__":
    main()

"""Writes what the simulator says for the published figures into its page: ``make simulator-report``."""

from __future__ import annotations

import math
from pathlib import Path

import yaml

from epd_operator.advice.simulation.known import COSTS, GPUS
from published.experiments import Bench
from published.prediction import PREDICTIONS

ARTICLE_RATE = 2.23
"""Requests per second and GB200 of the article's latencies, as the fit has found."""

BAND = 0.15
PAGE = Path(__file__).resolve().parents[2] / "docs/simulator-calibration.md"
FIGURES = yaml.safe_load(Path(__file__).with_name("figures.yaml").read_text())["figures"]
CONSTANTS_HEADER = "| constant | value | |\n|---|---:|---|\n"
HEADER = "| figure | published | simulated | deviation | role |\n|---|---:|---:|---:|---|\n"


def fitted() -> Bench:
    """The experiments with the fitted constants."""
    return Bench(costs=COSTS, rate=ARTICLE_RATE, encoder_gpu=GPUS["RTX-6000D"])


def rounded(value: float) -> str:
    """Three significant digits."""
    return f"{value:.{max(2 - math.floor(math.log10(value)), 0)}f}" if value > 0 else "0"


def row(figure: dict[str, object], simulated: float) -> str:
    """A figure as a row of the table."""
    published = float(str(figure["value"]))
    deviation = simulated / published - 1
    mark = "" if abs(deviation) <= BAND else " **missed**"
    cells = (figure["name"], rounded(published), rounded(simulated), f"{deviation:+.0%}{mark}", figure["role"])
    return f"| {' | '.join(map(str, cells))} |\n"


def table(simulated: dict[str, float]) -> str:
    """All figures that are numbers."""
    return HEADER + "".join(row(one, simulated[one["name"]]) for one in FIGURES if one["name"] in simulated)


def constants() -> str:
    """All constants of the model."""
    bench = fitted()
    assumed = {
        "step_request": "assumed",
        "memory_gigabyte": "70 % of the peak of 8 TB/s, assumed",
        "handover": "assumed",
    }
    found = {name: value for name, value in vars(bench.costs).items() if isinstance(value, float)}
    found |= {"rate of the article, per GB200": bench.rate, "compute of RTX 6000D": bench.encoder_gpu.compute}
    rows = [f"| `{name}` | {value:.3g} | {assumed.get(name, 'fitted')} |\n" for name, value in found.items()]
    return CONSTANTS_HEADER + "".join(rows)


def replaced(text: str, header: str, new: str) -> str:
    """The page with a new table in place of the one with this header."""
    before, _, rest = text.partition(header)
    lines = rest.splitlines(keepends=True)
    end = next((number for number, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return before + new + "".join(lines[end:])


def main() -> None:
    """Replace the tables in the page."""
    bench = fitted()
    results = table({name: predict(bench) for name, predict in PREDICTIONS.items()})
    PAGE.write_text(replaced(replaced(PAGE.read_text(), HEADER, results), CONSTANTS_HEADER, constants()))
    print(results, constants(), sep="\n")


if __name__ == "__main__":
    main()

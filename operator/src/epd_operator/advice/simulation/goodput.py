"""The highest goodput that a layout reaches at any rate of requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from epd_operator.advice.simulation.costs import Costs, Llm
from epd_operator.advice.simulation.layout import Layout
from epd_operator.advice.simulation.results import Result, Slo
from epd_operator.advice.simulation.simulate import simulate
from epd_operator.advice.simulation.traffic import MAX_RATE, Kind, RandomSource, generated

WARM_UP = 0.4
"""Share of the requests of a run that are not counted."""

STEPS = (1.5, 1.1)
"""Factors between the rates that are tried: first far apart, then close around the best."""

LONG = 20.0
"""Length of a run, in times that a request takes alone."""

ALONE_REQUESTS = 50
LOWEST_RATE = 1e-4
"""Requests per second; at this rate every request is alone."""

OVERLOAD = 2.0
MAX_REQUESTS = 50_000
"""Of a run."""

GIVE_UP = 0.7
"""A goodput below this part of the best one ends the search in its direction: it falls with overload."""


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """The best rate.

    Attributes:
        rate: offered requests per second.
        goodput: good requests per second.
    """

    rate: float
    goodput: float


def highest_goodput(
    kinds: Sequence[Kind],
    *,
    layout: Layout,
    costs: Costs,
    llm: Llm,
    slo: Slo,
    source: Callable[[], RandomSource],
    requests: int = 2000,
    first_rate: float = 1.0,
) -> Goodput:
    """Try rates until goodput falls.

    Each run is long compared with a request, so that the load of its second half does not depend on its beginning.

    Args:
        kinds: what arrives.
        layout: what is deployed.
        costs: the constants of the model.
        llm: the model that is served.
        slo: what a good request keeps.
        source: makes equal sources of random numbers, so that all rates get the same traffic.
        requests: of each run, at least.
        first_rate: requests per second of the first run.
    """
    found: dict[float, float] = {}

    def run(rate: float, duration: float) -> Result:
        traffic = generated(kinds, rate=rate, duration=duration, source=source())
        return simulate(
            traffic, layout=layout, costs=costs, llm=llm, slo=slo, source=source(), warm_up=duration * WARM_UP
        )

    alone = run(LOWEST_RATE, ALONE_REQUESTS / LOWEST_RATE).mean("e2e")

    def goodput(rate: float) -> float:
        if rate not in found:
            most = MAX_REQUESTS / rate
            found[rate] = run(rate, min(max(requests / rate, LONG * alone), most)).steady_goodput
        return found[rate]

    best = first_rate
    for step in STEPS:
        for factor in (step, 1 / step):
            rate = best * factor
            # A rate of twice the goodput is overload: a higher one makes no more requests good.
            while LOWEST_RATE < rate < MAX_RATE and (factor < 1 or rate < OVERLOAD * goodput(best)):
                found_now = goodput(rate)
                if found_now < GIVE_UP * goodput(best):
                    break
                if found_now > goodput(best):
                    best = rate
                rate *= factor
    return Goodput(rate=best, goodput=goodput(best))

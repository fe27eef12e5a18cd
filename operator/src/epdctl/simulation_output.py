"""The result of a simulation, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from epd_operator.advice.simulation.goodput import Goodput
from epd_operator.advice.simulation.results import PERCENTILES, Distribution, Result, Slo
from epdctl.layouts import Deployment
from epdctl.output import WIDTH, bar, table

LATENCIES = {"ttft": "TTFT", "itl": "ITL", "e2e": "E2E"}
REQUESTS = {"all": "", "media": " with images", "text": " text only"}

_STAGES = {
    "frontend": "frontends, decoding images",
    "media": "encoders",
    "PD encode": "PD, encode",
    "PD prefill": "PD, prefill",
    "PD decode": "PD, decode",
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of one deployment."""

    deployment: Deployment
    result: Result
    highest: Goodput | None = None


def text(outcomes: Sequence[Outcome]) -> str:
    """Tables in at most 80 columns."""
    parts = [_summary(outcomes)] if len(outcomes) > 1 else []
    return "\n\n".join([*parts, *(_one(outcome) for outcome in outcomes)])


def _summary(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for outcome in outcomes:
        result = outcome.result
        rows.append(
            (
                f"{outcome.deployment.name} ({outcome.deployment.layout.topology})",
                str(outcome.deployment.layout.gpus),
                _rate(result.goodput),
                *(_milliseconds(result.mean(latency)) for latency in LATENCIES),
                _price(outcome, outcome.result.output_tokens),
            )
        )
    return table(("DEPLOYMENT", "GPUS", "GOODPUT", "TTFT", "ITL", "E2E", "COST"), rows)


def _one(outcome: Outcome) -> str:
    result, layout = outcome.result, outcome.deployment.layout
    lines = [
        f"{outcome.deployment.name}: {layout.topology}, {layout.gpus} GPUs, {result.requests} requests in "
        f"{result.span:.0f} s"
    ]
    heading = table((lines[0],), [])
    parts = [heading, _latencies(result), _goodput(outcome), _utilisation(outcome)]
    if result.requests:
        parts.append(_first_token(result))
    parts.append(_cost(outcome))
    return "\n\n".join(parts)


def _latencies(result: Result) -> str:
    rows = []
    kinds = REQUESTS if result.media.ttft and result.text.ttft else {"all": ""}
    for latency, name in LATENCIES.items():
        for kind, suffix in kinds.items():
            found = result.distribution(latency, kind)
            if found:
                values = (found.mean, *(found.percentiles[percent] for percent in PERCENTILES))
                rows.append((name + suffix, *map(_milliseconds, values)))
    return table(("LATENCY", "MEAN", *(f"P{percent}" for percent in PERCENTILES)), rows)


def _goodput(outcome: Outcome) -> str:
    result = outcome.result
    share = f" ({result.good / result.requests * 100:.1f} %)" if result.requests else ""
    lines = [
        f"goodput {_rate(result.goodput)} of {_rate(result.requests / result.span if result.span else 0)}{share}, "
        f"{_objective(outcome.deployment.slo)}"
    ]
    if outcome.highest:
        lines.append(f"highest goodput {_rate(outcome.highest.goodput)}, if {_rate(outcome.highest.rate)} arrive")
    return "\n".join(lines)


def _objective(slo: Slo) -> str:
    limits = [f"{name} < {_milliseconds(value)}" for name, value in (("ITL", slo.itl), ("TTFT", slo.ttft)) if value]
    return " and ".join(limits) or "without an SLO"


def _utilisation(outcome: Outcome) -> str:
    names = {**_STAGES, "media": "encoders" if outcome.deployment.layout.encoders else "workers, preparing images"}
    rows = [(names[stage], f"{share * 100:.1f} %") for stage, share in outcome.result.utilisation.items()]
    return table(("STAGE", "BUSY"), rows)


def _first_token(result: Result) -> str:
    seconds = asdict(result.phases)
    total = sum(seconds.values())
    shares = {name.replace("_", " "): value / total * 100 if total else 0.0 for name, value in seconds.items()}
    letters = {f"{letter} {name}": share for letter, (name, share) in zip("FWETQP", shares.items(), strict=True)}
    legend = [f"{name} {share:.1f} %" for name, share in letters.items()]
    return "\n".join(
        [
            "where the time to the first token goes",
            f"  {bar(letters, width=WIDTH - 2)}",
            *(f"  {'   '.join(legend[start : start + 3])}" for start in (0, 3)),
        ]
    )


def _cost(outcome: Outcome) -> str:
    price = outcome.deployment.layout.price
    if price is None:
        return "cost: unknown: set pricePerHour of each GPU in the field gpus of the traffic file"
    result = outcome.result
    return (
        f"cost of a million tokens, at {price:g} per hour for all GPUs\n"
        f"  output {_price(outcome, result.output_tokens)}   "
        f"input and output {_price(outcome, result.output_tokens + result.prompt_tokens)}"
    )


def _price(outcome: Outcome, tokens: int) -> str:
    price = outcome.deployment.layout.price
    cost = outcome.result.price_per_million(price, tokens) if price is not None else None
    return "-" if cost is None else f"{cost:.4g}"


def _milliseconds(seconds: float) -> str:
    milliseconds = seconds * 1000
    return f"{milliseconds:.1f} ms" if milliseconds < 1e4 else f"{seconds:.4g} s"


def _rate(rate: float) -> str:
    return f"{rate:.4g}/s"


def data(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The same for programs. Times in milliseconds, rates in requests per second."""
    return {"deployments": [_data(outcome) for outcome in outcomes]}


def _data(outcome: Outcome) -> dict[str, Any]:
    result, layout = outcome.result, outcome.deployment.layout
    price = layout.price
    all_tokens = result.output_tokens + result.prompt_tokens
    return {
        "name": outcome.deployment.name,
        "topology": str(layout.topology),
        "gpus": layout.gpus,
        "requests": result.requests,
        "seconds": result.span,
        "goodput": result.goodput,
        "goodRequests": result.good,
        "highestGoodput": asdict(outcome.highest) if outcome.highest else None,
        "latenciesMs": {
            latency: {kind: _distribution(result.distribution(latency, kind)) for kind in REQUESTS}
            for latency in LATENCIES
        },
        "utilisation": {
            to_camel(stage.replace(" ", "_").lower()): share for stage, share in result.utilisation.items()
        },
        "timeToFirstTokenMs": {
            to_camel(phase): seconds * 1000 / result.requests if result.requests else 0.0
            for phase, seconds in asdict(result.phases).items()
        },
        "images": result.images,
        "cachedImages": result.cached_images,
        "promptTokens": result.prompt_tokens,
        "outputTokens": result.output_tokens,
        "pricePerHour": price,
        "pricePerMillionOutputTokens": result.price_per_million(price, result.output_tokens)
        if price is not None
        else None,
        "pricePerMillionTokens": result.price_per_million(price, all_tokens) if price is not None else None,
    }


def _distribution(found: Distribution | None) -> dict[str, float] | None:
    if found is None:
        return None
    return {"mean": found.mean * 1000, **{f"p{percent}": value * 1000 for percent, value in found.percentiles.items()}}

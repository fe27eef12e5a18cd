"""``epdctl simulate``: latencies, goodput, utilisation and cost of deployments under given traffic."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from epd_operator.advice.simulation.goodput import Goodput, highest_goodput
from epd_operator.advice.simulation.known import COSTS
from epd_operator.advice.simulation.results import Result
from epd_operator.advice.simulation.simulate import simulate as run
from epd_operator.advice.simulation.traffic import Arrival, generated
from epdctl.files import documents, parse, read_text
from epdctl.layouts import Deployment, read_deployment
from epdctl.output import Format, as_data, fail
from epdctl.simulation_input import Arrivals, TrafficFile
from epdctl.simulation_output import Outcome, data, text
from epdctl.traces import read_trace


def simulate(
    *,
    files: Annotated[
        list[str],
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="EPDDeployment manifests, and one traffic file. - reads standard input.",
            show_default=False,
        ),
    ],
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers. The same seed gives the same result.")] = 0,
    find_highest: Annotated[
        bool, typer.Option("--highest-goodput", help="Also find the rate of requests with the highest goodput.")
    ] = False,
    output: Annotated[Format, typer.Option("--output", "-o", help="Format of the result.")] = Format.TABLE,
) -> None:
    """Simulate deployments under given traffic.

    The model is fitted to published measurements of one model on one kind of GPU. It compares deployments; it does not
    replace a measurement.

    Example: epdctl simulate -f deployment.yaml -f traffic.yaml
    """
    try:
        traffic, deployments, folder = _read(files)
        outcomes = [
            Outcome(
                deployment=deployment,
                result=_simulate(deployment, traffic=traffic, folder=folder, seed=seed),
                highest=_highest(deployment, traffic=traffic, seed=seed) if find_highest else None,
            )
            for deployment in deployments
        ]
    except ValueError as error:
        raise fail(error) from None
    typer.echo(text(outcomes) if output is Format.TABLE else as_data(data(outcomes), form=output))


def _read(files: Sequence[str]) -> tuple[TrafficFile, list[Deployment], Path]:
    """The traffic, the deployments, and the folder that the path of a trace is relative to."""
    manifests: list[tuple[str, Mapping[str, Any]]] = []
    traffics: list[tuple[str, Any]] = []
    for path in files:
        for document in documents(path, read_text(path, standard_input=sys.stdin)):
            if isinstance(document, Mapping) and document.get("kind") == "EPDDeployment":
                manifests.append((path, document))
            else:
                traffics.append((path, document))
    if len(traffics) != 1:
        found = ", ".join(path for path, _ in traffics) or "none"
        raise ValueError(f"--filename: give exactly one traffic file (found: {found}); manifests have a kind")
    if not manifests:
        raise ValueError("--filename: no file has an EPDDeployment (kind: EPDDeployment): give at least one")
    path, document = traffics[0]
    traffic = parse(TrafficFile, document, path=path)
    folder = Path() if path == "-" else Path(path).parent
    return traffic, [read_deployment(one, path=where, traffic=traffic) for where, one in manifests], folder


def _simulate(deployment: Deployment, *, traffic: TrafficFile, folder: Path, seed: int) -> Result:
    return run(
        _arrivals(traffic, folder=folder, seed=seed),
        layout=deployment.layout,
        costs=COSTS,
        llm=deployment.llm,
        slo=deployment.slo,
        source=random.Random(f"{seed}-routing"),  # noqa: S311  not for secrets
        warm_up=traffic.traffic.warm_up_seconds,
    )


def _arrivals(traffic: TrafficFile, *, folder: Path, seed: int) -> Iterable[Arrival]:
    given = traffic.traffic
    if given.trace is not None:
        return read_trace(str(folder / given.trace))
    return generated(
        [kind.kind() for kind in given.requests or ()],
        rate=given.rate or 0.0,
        duration=given.duration_seconds,
        source=random.Random(f"{seed}-traffic"),  # noqa: S311  not for secrets
        is_constant=given.arrivals is Arrivals.CONSTANT,
    )


def _highest(deployment: Deployment, *, traffic: TrafficFile, seed: int) -> Goodput:
    given = traffic.traffic
    if given.requests is None or given.rate is None:
        raise ValueError("--highest-goodput: a trace has its own rate: use requests and rate in the traffic file")
    return highest_goodput(
        [kind.kind() for kind in given.requests],
        layout=deployment.layout,
        costs=COSTS,
        llm=deployment.llm,
        slo=deployment.slo,
        source=lambda: random.Random(f"{seed}-traffic"),  # noqa: S311  not for secrets
        first_rate=given.rate,
    )

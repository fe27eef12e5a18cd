"""What was seen in a scenario, as JSON and as a row of a table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from epd_local.load_proof.requests import Request
from epd_local.load_proof.scenarios import SCENARIOS, Scenario


@dataclass(frozen=True, kw_only=True)
class Result:
    """What was seen in one scenario.

    Attributes:
        name: of the scenario.
        date: day on which it ran.
        machine: on which it ran.
        sent: requests, by kind.
        failed: those that failed.
        failed_in_flight: those of them that were sent before the change or failure, and not answered at that time.
        longest_gap: longest time between two answers, in seconds.
        seconds: duration of the change or failure.
        gpus_before: GPUs in use at the start.
        gpus_at_peak: most GPUs in use at the same time.
        pods_at_peak: most pods at the same time.
        faults: how requests failed, with the time since the start of the change.
    """

    name: str
    date: str
    machine: str
    sent: dict[str, int]
    failed: int
    failed_in_flight: int
    longest_gap: float
    seconds: float
    gpus_before: int
    gpus_at_peak: int
    pods_at_peak: int
    faults: tuple[str, ...] = ()

    def is_as_promised(self, scenario: Scenario) -> bool:
        """Whether no request failed; after a kill, whether only such failed as were in flight."""
        return self.failed == (0 if scenario.is_planned else self.failed_in_flight)


def count(requests: Iterable[Request]) -> dict[str, int]:
    """Number of requests by kind."""
    found: dict[str, int] = {}
    for request in requests:
        found[request.kind] = found.get(request.kind, 0) + 1
    return dict(sorted(found.items()))


def longest_gap(requests: Iterable[Request]) -> float:
    """Longest time between two answers, in seconds."""
    times = sorted(request.ended for request in requests if not request.fault)
    return max((later - earlier for earlier, later in pairwise(times)), default=float("inf"))


def was_in_flight(request: Request, *, at: float) -> bool:
    """Whether the request was sent, and neither answered nor failed, at this time."""
    return request.sent <= at <= request.ended


def merge(path: Path, results: Sequence[Result]) -> list[Result]:
    """Add results to a file; a later one of the same scenario replaces the earlier one."""
    known: dict[str, Any] = {r["name"]: r for r in json.loads(path.read_text())} if path.exists() else {}
    known |= {result.name: asdict(result) for result in results}
    ordered = [known[scenario.name] for scenario in SCENARIOS if scenario.name in known]
    path.write_text(json.dumps(ordered, indent=1) + "\n")
    return [Result(**found) for found in ordered]


def table(results: Sequence[Result]) -> str:
    """The results as a table in Markdown, with all scenarios."""
    by_name = {result.name: result for result in results}
    rows = [
        "| what happens | requests | failed | longest gap | duration | GPUs before, at the peak |",
        "|---|---|---|---|---|---|",
    ]
    for scenario in SCENARIOS:
        result = by_name.get(scenario.name)
        rows.append(f"| {scenario.title} | {_cells(result) if result else 'not run | | | |'} |")
    return "\n".join(rows)


def _cells(result: Result) -> str:
    failed = str(result.failed)
    if result.failed and result.failed_in_flight:
        failed += f" ({result.failed_in_flight} in flight)"
    return (
        f"{sum(result.sent.values())} | {failed} | {result.longest_gap:.1f} s | {result.seconds:.0f} s "
        f"| {result.gpus_before}, {result.gpus_at_peak}"
    )

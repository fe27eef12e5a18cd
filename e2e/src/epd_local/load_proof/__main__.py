"""``python -m epd_local.load_proof``: which requests are lost while a deployment changes or parts of it are killed."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from epd_local.cluster import operations
from epd_local.cluster.lifecycle import api_client
from epd_local.demo.__main__ import MODEL, SERVICE_PORT
from epd_local.demo.chat import Endpoint
from epd_local.demo.deployment import Deployment
from epd_local.demo.installation import Installation, install
from epd_local.errors import LocalClusterError
from epd_local.image.small import worker_image
from epd_local.load_proof.bench import Bench, Peak
from epd_local.load_proof.load import Load, tokens_in
from epd_local.load_proof.requests import Kind
from epd_local.load_proof.results import Result, count, longest_gap, merge, table, was_in_flight
from epd_local.load_proof.scenarios import OTHER_IMAGE, SCENARIOS, Scenario
from epd_local.locations import locations
from epd_local.progress import say

LOCAL_PORT = 18000
LONG_SECONDS = 12.0
"""Duration of the long answers: a part of drain.timeoutSeconds of the examples."""
SHOWN_FAULTS = 20


def main(words: Sequence[str] | None = None) -> int:
    """Run scenarios; the exit code is 1 if one was not completed, or lost a request that it should not."""
    parser = argparse.ArgumentParser(prog="make e2e-rollout", description=__doc__)
    parser.add_argument("scenario", nargs="*", help="names of scenarios; all by default")
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("--results", type=Path, default=Path("rollout-results.json"), help="JSON file to add to")
    arguments = parser.parse_args(words)
    if unknown := set(arguments.scenario) - {scenario.name for scenario in SCENARIOS}:
        parser.error(f"unknown scenarios: {', '.join(sorted(unknown))}; --list lists them")
    if arguments.list:
        print("\n".join(f"{scenario.name:<30}{scenario.title}" for scenario in SCENARIOS))
        return 0
    chosen = [s for s in SCENARIOS if s.name in arguments.scenario or not arguments.scenario]
    try:
        return _run_all(chosen, results=arguments.results)
    except LocalClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run_all(chosen: Sequence[Scenario], *, results: Path) -> int:
    installation = install(locations())
    operations.load_images(locations(), archives=[worker_image(locations(), reference=OTHER_IMAGE)])
    lost = []
    with tempfile.TemporaryDirectory() as folder:
        deployment = Deployment(kubectl=installation.kubectl)
        bench = Bench(deployment=deployment, api=api_client(locations()), folder=Path(folder))
        for scenario in chosen:
            try:
                _bring(bench, scenario, installation=installation)
                result = _run(scenario, bench=bench)
            except LocalClusterError as error:
                # The others can still be measured.
                lost.append(scenario.name)
                say(f"{scenario.name}: {error}")
                continue
            print(table(merge(results, [result])), flush=True)
            if not result.is_as_promised(scenario):
                lost.append(scenario.name)
                say("\n".join((f"{scenario.name}: requests were lost", *result.faults)))
    return 1 if lost else 0


def _bring(bench: Bench, scenario: Scenario, *, installation: Installation) -> None:
    """Serve what the scenario begins with."""
    if bench.deployment.get() is None or not (scenario.before.matches(bench.spec()) and bench.is_settled()):
        say(f"preparing {scenario.name}")
        bench.deployment.apply(bench.write(scenario.before))
        bench.settle()
    service = f"{bench.deployment.namespace}/{bench.deployment.name}:{SERVICE_PORT}"
    operations.expose(installation.where, service=service, local_port=LOCAL_PORT)


def _run(scenario: Scenario, *, bench: Bench) -> Result:
    endpoint = Endpoint(url=f"http://localhost:{LOCAL_PORT}", model=MODEL)
    tokens = tokens_in(LONG_SECONDS, ask=lambda n: endpoint.ask("Say hello.", max_tokens=n, ignore_eos=True))
    say(f"{scenario.name}: {scenario.title}; long answers have {tokens} tokens")
    everything = set(Kind)
    with Load(url=endpoint.url, model=endpoint.model, long_tokens=tokens) as load, Peak(bench) as peak:
        bench.wait(lambda: load.answered_since(0.0) == everything, what="an answer of each kind")
        began = time.monotonic()
        scenario.act(bench)
        over = time.monotonic()
        bench.wait(lambda: load.answered_since(over) == everything, what="an answer of each kind afterwards")
    failed = [request for request in load.ended if request.fault]
    return Result(
        name=scenario.name,
        date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        machine=f"{os.cpu_count()} cores",
        sent=count(load.ended),
        failed=len(failed),
        failed_in_flight=sum(was_in_flight(request, at=began) for request in failed),
        longest_gap=round(longest_gap(load.ended), 1),
        seconds=round(over - began, 1),
        gpus_before=peak.first_gpus,
        gpus_at_peak=peak.gpus,
        pods_at_peak=peak.pods,
        faults=tuple(
            f"{request.sent - began:.1f} s to {request.ended - began:.1f} s, {request.kind}: {request.fault}"
            for request in failed[:SHOWN_FAULTS]
        ),
    )


if __name__ == "__main__":
    raise SystemExit(main())

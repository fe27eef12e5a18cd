"""Answers of a Prometheus server."""

from __future__ import annotations

import json
from typing import Any

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.targets import Target

NOW = 100.0
UNIX_NOW = 1_800_000_000.0


def target(pod: str = "p", *, stage: StageName = StageName.PD, ready: bool = True) -> Target:
    return Target(pod=pod, stage=stage, ready=ready, url="http://unused.test")


def series(name: str, value: str, *, pod: str = "p", age: float = 0.0, **labels: str) -> dict[str, Any]:
    """A series with an older sample of another value before the last one."""
    last = UNIX_NOW - age
    return {"metric": {"__name__": name, "pod": pod, **labels}, "values": [[last - 15, "99"], [last, value]]}


def engine(running: str, waiting: str, *, pod: str = "p", age: float = 0.0, **labels: str) -> list[dict[str, Any]]:
    return [
        series("vllm:num_requests_running", running, pod=pod, age=age, **labels),
        series("vllm:num_requests_waiting", waiting, pod=pod, age=age, **labels),
    ]


def in_flight(value: str, component: str, **options: Any) -> dict[str, Any]:
    return series(
        "dynamo_component_inflight_requests",
        value,
        dynamo_component=component,
        dynamo_endpoint="generate",
        **options,
    )


def answer(*found: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(found)}}).encode()

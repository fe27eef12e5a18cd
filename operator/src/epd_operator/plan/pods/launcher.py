"""Command lines of the launcher, epd_worker, which runs, probes and drains the processes of a pod.

The launcher is in the worker image and cannot be imported here. tests/unit/contracts compares both sides: options, the
document of a group, ports and defaults.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec
from epd_operator.plan.pods.process import Process

LAUNCHER = ("python3", "-m", "epd_worker")
CONTROL_PORT = 9400
"""Port of the launcher, which answers probes and starts the drain."""
DRAIN_SETTLE_SECONDS = 6
"""Seconds for two failed readiness probes and Dynamo's discovery. After them no new request arrives."""

_CONTROL = ("--control-port", str(CONTROL_PORT))
DRAIN_COMMAND = [*LAUNCHER, "drain", *_CONTROL]
"""The preStop hook: drains the processes of the pod, and returns when they are drained."""


def run_command(process: Process, *, spec: EPDDeploymentSpec) -> list[str]:
    """The command line that runs the only process of a pod."""
    return [
        *LAUNCHER,
        "run",
        *("--name", process.discovery_name, "--role", process.role),
        *("--health-url", process.health_url, "--metrics-url", process.metrics_url),
        *(("--metrics-port", str(process.relayed_port)) if process.relayed_port else ()),
        *(("--models-url", process.models_url) if process.models_url else ()),
        *_options(spec),
        "--",
        *process.command,
    ]


def run_group_command(spec: EPDDeploymentSpec) -> list[str]:
    """The command line that runs all processes of a co-located group; ``group_document`` describes them."""
    return [*LAUNCHER, "run-group", *_options(spec)]


def stub_command(*, container: str) -> list[str]:
    """The command line of a container that only provides the identity (name) of a process for Dynamo discovery."""
    return [*LAUNCHER, "stub", "--name", container]


def group_document(processes: Sequence[Process], *, cuda_mps: bool) -> str:
    """The value of ``EPD_GROUP``: processes in start order, as JSON."""
    document = {
        "processes": [
            {
                "name": process.discovery_name,
                "role": process.role,
                "command": process.command,
                "env": {str(e["name"]): str(e.get("value", "")) for e in process.env},
                "healthUrl": process.health_url,
                "metricsUrl": process.metrics_url,
                "metricsPort": process.relayed_port,
            }
            for process in processes
        ],
        "cudaMps": cuda_mps,
    }
    return json.dumps(document, sort_keys=True)


def _options(spec: EPDDeploymentSpec) -> list[str]:
    """Options of the drain before a pod terminates, and of the restart of a process that hangs."""
    return [
        *_CONTROL,
        *("--drain-timeout", str(spec.drain.timeout_seconds), "--settle", str(DRAIN_SETTLE_SECONDS)),
        *("--hang-timeout", str(spec.runtime.hang_timeout_seconds)),
    ]

"""The launcher accepts the commands of an earlier operator, because worker images are upgraded first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import epd_worker
from support.processes import free_ports

SOURCES = str(Path(epd_worker.__file__).parents[1])
PATIENCE = 60
COMMAND = ["sh", "-c", "exit 7"]
DRAIN = ["--drain-timeout", "300", "--settle", "6", "--termination-log", "/dev/null"]
# As version 0.1.0 wrote them, but for the command of the engine, its environment and the control port.
RUN = {
    role: ["run", "--name", "main", "--role", role, "--health-url", f"http://127.0.0.1:{port}/health",
           "--metrics-url", f"http://127.0.0.1:{port}/metrics"]
    for role, port in {"pd": 9090, "encoder": 9090, "worker": 9090, "frontend": 8000}.items()
}  # fmt: skip
RUN["frontend"] += ["--models-url", "http://127.0.0.1:8000/v1/models"]
GROUP = {
    "cudaMps": False,
    "processes": [
        {
            "command": COMMAND,
            "env": {"CONTAINER_NAME": name, "DYN_SYSTEM_PORT": str(port)},
            "healthUrl": f"http://127.0.0.1:{port}/health",
            "metricsUrl": f"http://127.0.0.1:{port}/metrics",
            "name": name,
            "role": role,
        }
        for name, role, port in (("encoder-0", "encoder", 9090), ("encoder-1", "encoder", 9091), ("pd", "pd", 9092))
    ],
}


def control_port() -> str:
    (port,) = free_ports(1)
    return str(port)


def launch(*arguments: str, **environment: str) -> int:
    command = [sys.executable, "-m", "epd_worker", *arguments]
    environment = {**os.environ, "PYTHONPATH": SOURCES, **environment}
    return subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE, check=False).returncode


@pytest.mark.parametrize("role", RUN)
def test_the_launcher_runs_a_process_as_the_operator_of_0_1_0_asks_for_it(role: str) -> None:
    assert launch(*RUN[role], "--control-port", control_port(), *DRAIN, "--", *COMMAND) == 7


def test_the_launcher_runs_a_group_as_the_operator_of_0_1_0_asks_for_it() -> None:
    assert launch("run-group", "--control-port", control_port(), *DRAIN, EPD_GROUP=json.dumps(GROUP)) == 7

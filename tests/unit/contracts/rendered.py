"""Pods as the operator renders them, and their command lines as the launcher parses them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import Identity
from epd_operator.plan.stages.plan_stages import plan_stages
from epd_worker import cli
from epd_worker.spec import LaunchSpec
from support.specs import TOPOLOGIES, spec

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
PROGRAM = ["python3", "-m", "epd_worker"]


def templates(wanted: EPDDeploymentSpec) -> dict[StageName, dict[str, Any]]:
    """The pod template of each stage."""
    return {stage.name: stage.pod_template for stage in plan_stages(wanted, identity=IDENTITY)}


def all_templates(**changes: Any) -> Iterator[tuple[StageName, dict[str, Any]]]:
    """The pod templates of all stages of all topologies."""
    for topology in TOPOLOGIES:
        yield from templates(spec(topology, **changes)).items()


def single_process_stages(**changes: Any) -> Iterator[tuple[StageName, dict[str, Any]]]:
    """The pod templates of all stages with one process per pod."""
    return ((stage, template) for stage, template in all_templates(**changes) if stage is not StageName.GROUP)


def group_template(encoders: int, **group: Any) -> dict[str, Any]:
    """The pod template of a co-located group with this number of encoders."""
    wanted = spec("CoLocated", group={"pool": "gb200", "encoder": {"count": encoders}, **group})
    return templates(wanted)[StageName.GROUP]


def containers(template: dict[str, Any]) -> list[dict[str, Any]]:
    """The containers of a pod; the last one runs the launcher."""
    found: list[dict[str, Any]] = template["spec"]["containers"]
    return found


def ports(container: dict[str, Any]) -> dict[str, int]:
    """Numbers of the ports of a container, by name."""
    return {port["name"]: port["containerPort"] for port in container.get("ports", ())}


def environment(container: dict[str, Any]) -> dict[str, str]:
    """The variables of a container that have literal values."""
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


def arguments(command: list[str]) -> list[str]:
    """Arguments of a command line of the launcher."""
    assert command[: len(PROGRAM)] == PROGRAM
    return command[len(PROGRAM) :]


def parsed(container: dict[str, Any]) -> LaunchSpec:
    """The launch spec of a container."""
    options, command = cli.parse(arguments(container["command"]))
    return cli.launch_spec(options, command, environment(container))


def local(command: list[str]) -> list[str]:
    """The same command line with this Python."""
    return [sys.executable, "-m", "epd_worker", *arguments(command)]

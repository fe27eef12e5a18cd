"""The command line: parses it into a LaunchSpec and runs the launcher."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from epd_worker import hook, locked_memory
from epd_worker.output import Console
from epd_worker.spec import (
    LaunchSpec,
    ProcessSpec,
    Role,
    SpecError,
    check_command,
    check_name,
    check_role,
    check_url,
    parse_group,
)
from epd_worker.supervisor import Supervisor
from epd_worker.termination import write_message

_USAGE_ERROR = 2
_NO_RDMA = 1


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SpecError(f"{self.prog}: {message}; see {self.prog} --help")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, 0 or more, got {text!r}")
    return value


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"must be a port from 1 to 65535, got {text!r}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    defaults = LaunchSpec(processes=())
    port = _Parser(add_help=False)
    port.add_argument(
        "--control-port", type=_port, default=defaults.control_port, metavar="PORT", help="default: %(default)s"
    )
    parser = _Parser(prog="epd_worker", description="Runs, watches, drains and stops the processes of a pod.")
    commands = parser.add_subparsers(dest="subcommand", required=True, parser_class=_Parser)
    launch = [port, _launch_options(defaults)]
    one = commands.add_parser("run", parents=launch, help="run one process: run … -- COMMAND ARGS…")
    one.add_argument("--name", required=True, help="a DNS label; the probe is /ready/NAME")
    one.add_argument("--role", required=True, help=", ".join(Role))
    one.add_argument("--health-url", required=True, metavar="URL", help="answers 2xx when the process is healthy")
    one.add_argument("--metrics-url", required=True, metavar="URL", help="metrics page with the requests in flight")
    one.add_argument(
        "--metrics-port", type=_port, metavar="PORT", help="port where other pods can read the page at --metrics-url"
    )
    one.add_argument(
        "--models-url",
        metavar="URL",
        help="OpenAI list of models that must contain a model before the process is ready for the first time",
    )
    group = commands.add_parser("run-group", parents=launch, help="run the processes in $EPD_GROUP")
    group.add_argument("--mps-directory", default=defaults.mps_directory, metavar="PATH", help="default: %(default)s")
    drain = commands.add_parser("drain", parents=[port], help="preStop hook: request the drain and wait for its end")
    drain.add_argument(
        "--timeout", type=_seconds, default=hook.PATIENCE_SECONDS, metavar="SECONDS", help="time limit for the answer"
    )
    commands.add_parser("stub", help="keep a container running that only provides its name for Dynamo discovery")
    return parser


def _launch_options(defaults: LaunchSpec) -> _Parser:
    options = _Parser(add_help=False)
    for flag, default, meaning in (
        ("--drain-timeout", defaults.drain_timeout, "time limit of the whole drain, all stages together"),
        ("--settle", defaults.settle, "time until the kubelet and Dynamo have detected that a process is unready"),
        ("--stop-timeout", defaults.stop_timeout, "time from SIGTERM to SIGKILL of all remaining processes"),
        ("--hang-timeout", defaults.hang_timeout, "time without a healthy answer until a process is ended; 0: never"),
    ):
        options.add_argument(
            flag, type=_seconds, default=default, metavar="SECONDS", help=f"{meaning}; default: %(default)g"
        )
    options.add_argument(
        "--termination-log", default=defaults.termination_log, metavar="PATH", help="default: %(default)s"
    )
    return options


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the options, and the command after `--`; raise SpecError for invalid options."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    return _parser().parse_args(words[:end]), words[end + 1 :]


def launch_spec(options: argparse.Namespace, command: Sequence[str], environment: Mapping[str, str]) -> LaunchSpec:
    """Return what `run` or `run-group` starts; raise SpecError for an invalid command or EPD_GROUP."""
    if options.subcommand == "run":
        process = ProcessSpec(
            name=check_name("--name", options.name),
            role=check_role("--role", options.role),
            command=check_command("command after --", list(command)),
            health_url=check_url("--health-url", options.health_url),
            metrics_url=check_url("--metrics-url", options.metrics_url),
            metrics_port=options.metrics_port,
            models_url=options.models_url and check_url("--models-url", options.models_url),
        )
        spec = LaunchSpec(processes=(process,))
    else:
        if "EPD_GROUP" not in environment:
            raise SpecError("EPD_GROUP: is not set; it must contain the processes of the group as JSON")
        group = parse_group(environment["EPD_GROUP"])
        spec = LaunchSpec(
            processes=group.processes, group=True, cuda_mps=group.cuda_mps, mps_directory=options.mps_directory
        )
    return replace(
        spec,
        control_port=options.control_port,
        drain_timeout=options.drain_timeout,
        settle=options.settle,
        stop_timeout=options.stop_timeout,
        hang_timeout=options.hang_timeout,
        termination_log=options.termination_log,
    )


def _refuse(message: str, *, termination_log: str, code: int) -> int:
    sys.stderr.write(f"epd_worker: {message}\n")
    with contextlib.suppress(OSError):
        write_message(termination_log, message)
    return code


async def _launch(spec: LaunchSpec, *, environment: Mapping[str, str], console: Console) -> int:
    return await Supervisor(spec, environment=environment, console=console).run()


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code: 2 for invalid arguments or EPD_GROUP, 1 if RDMA cannot work."""
    termination_log = LaunchSpec(processes=()).termination_log
    try:
        options, command = parse(arguments)
        if options.subcommand == "drain":
            return hook.drain(port=options.control_port, timeout=options.timeout)
        termination_log = options.termination_log
        spec = launch_spec(options, command, os.environ)
    except SpecError as error:
        return _refuse(str(error), termination_log=termination_log, code=_USAGE_ERROR)
    if locked_memory.uses_rdma(os.environ, devices=locked_memory.RDMA_DEVICES):
        locked_memory.raise_limit()
        memory = locked_memory.allowed()
        sys.stderr.write(f"epd_worker: RDMA may lock memory: {memory}\n")
        problem = locked_memory.problem(memory)
        if problem is not None:
            return _refuse(problem, termination_log=termination_log, code=_NO_RDMA)
    console = Console()
    try:
        return asyncio.run(_launch(spec, environment=os.environ, console=console))
    finally:
        console.close(timeout=2.0)

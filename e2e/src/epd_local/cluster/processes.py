"""Finds the processes of the cluster by their command lines, and enters their namespaces.

There are no files with process IDs: such files may be left over, and IDs are used again. Every process of the tool
inside a cluster has the command line ``… -m epd_local.cluster.inside ROLE --state STATE …``, by which it is found.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from epd_local.builds.packages import SEARCH_PATH
from epd_local.locations import SOURCES

MODULE = "epd_local.cluster.inside"
END_SECONDS = 10.0
NAMESPACES = ("--net", "--mount", "--uts", "--ipc", "--pid")

# Components do not inherit the variables of the caller: a proxy of the machine is unreachable from inside.
COMPONENT_ENVIRONMENT = {"PATH": SEARCH_PATH, "HOME": "/root", "LANG": "C.UTF-8"}
PYTHON_ENVIRONMENT = {**COMPONENT_ENVIRONMENT, "PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class Process:
    """A process of the tool, as seen from the machine."""

    pid: int
    role: str
    arguments: tuple[str, ...]  # after the role
    is_namespace_init: bool

    def option(self, name: str) -> str:
        """Return the value of an option of its command line, or an empty string."""
        words = list(self.arguments)
        return words[words.index(name) + 1] if name in words[:-1] else ""


def inside_command(role: str, *, state: Path, arguments: Sequence[str] = ()) -> list[str]:
    """Return the command line of a role inside the cluster."""
    return [sys.executable, "-m", MODULE, role, "--state", str(state), *arguments]


def new_namespaces(command: Sequence[str]) -> list[str]:
    """Return a command line that runs *command* as process 1 of new namespaces."""
    return ["unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc", "--", *command]


def enter(pid: int, command: Sequence[str]) -> list[str]:
    """Return a command line that runs *command* in the namespaces of a process."""
    return ["nsenter", "--target", str(pid), *NAMESPACES, "--", *command]


def parse_command_line(words: Sequence[str], *, state: Path) -> tuple[str, tuple[str, ...]] | None:
    """Return role and arguments if this is the command line of a process of the cluster in *state*."""
    for position, word in enumerate(words[:-3]):
        if word == "-m" and words[position + 1] == MODULE:
            role, rest = words[position + 2], tuple(words[position + 3 :])
            return (role, rest[2:]) if rest[:2] == ("--state", str(state)) else None
    return None


def find(state: Path, *, role: str = "") -> list[Process]:
    """Return the processes of the cluster in *state*; a wrapper such as ``unshare`` counts with its role."""
    found = []
    for pid, words in _command_lines():
        parsed = parse_command_line(words, state=state)
        if parsed and role in ("", parsed[0]):
            found.append(Process(pid, parsed[0], parsed[1], is_namespace_init=_is_namespace_init(pid)))
    return found


def states_in_use() -> set[str]:
    """Return the state folders of all clusters that have a process on this machine."""
    return {
        words[words.index(MODULE) + 3]
        for _, words in _command_lines()
        if MODULE in words[:-3] and words[words.index(MODULE) + 2] == "--state"
    }


def control_plane_init(state: Path) -> int | None:
    """Return the process ID of process 1 of the cluster, as seen from the machine."""
    return next((found.pid for found in find(state, role="control-plane") if found.is_namespace_init), None)


def node_inits(state: Path) -> dict[str, int]:
    """Return process 1 of every node that has power, by the name of the node."""
    return {found.arguments[0]: found.pid for found in find(state, role="node") if found.is_namespace_init}


def end(pid: int) -> None:
    """Kill a process and wait until it has ended and released its resources."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [], END_SECONDS)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)


def python_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables for processes of the tool inside the cluster, with the path of Python's libraries."""
    libraries = {"LD_LIBRARY_PATH": environ["LD_LIBRARY_PATH"]} if "LD_LIBRARY_PATH" in environ else {}
    return {**PYTHON_ENVIRONMENT, **libraries}


def _command_lines() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            except (FileNotFoundError, ProcessLookupError):
                continue
            yield int(folder.name), words


def _is_namespace_init(pid: int) -> bool:
    """Return whether a process is process 1 of a PID namespace below this one."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == "1"

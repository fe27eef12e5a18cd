"""Limits threads that poll without a pause to a small share of the processors, while others need them.

The progress thread of NIXL polls UCX and never sleeps: the Python package sets ``pthrDelay = 0`` (``nixl_cu13/_api.py``
of nixl 1.4.1). A GPU node has a core for it. Here every idle encoder and PD worker would use a core of its own, mostly
for system calls, and a machine has two.

Only with cgroups of version 1: those of version 2 do not move single threads out of a pod.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from threading import Thread

CGROUP = "polling"
SHARES = 128
"""Of the processors, where all pods of a node together have 1024 for each of its cores. Transfers still take only some
10 ms longer on a busy machine."""
INTERVAL_SECONDS = 2.0
MIN_CPU_SECONDS = 1.0
"""A thread that has used this much time without ever waiting for anything polls."""


def start(node: str, *, roots: tuple[Path, ...]) -> None:
    """Start a thread that looks for polling threads of all processes in this PID namespace, until the process ends.

    Args:
        node: path of the node's cgroup, as `cgroups.create` returns it.
        roots: where cgroups of version 1 are mounted; others have no ``cpu.shares``.
    """
    root = next((root for root in roots if (root / "cpu.shares").exists()), None)
    if root is not None:
        folder = root / node.lstrip("/") / CGROUP
        folder.mkdir(exist_ok=True)
        (folder / "cpu.shares").write_text(str(SHARES))
        Thread(target=_run, kwargs={"folder": folder}, daemon=True).start()


def _run(*, folder: Path) -> None:
    while True:
        move_polling_threads(folder)
        time.sleep(INTERVAL_SECONDS)


def move_polling_threads(folder: Path, *, proc: Path = Path("/proc")) -> None:
    """Move all polling threads into a cgroup."""
    moved = set((folder / "tasks").read_text().split())
    for task in proc.glob("[0-9]*/task/[0-9]*"):
        try:
            if task.name not in moved and task.name != task.parts[-3] and is_polling(task):
                (folder / "tasks").write_text(task.name)
        except (OSError, ValueError):
            # It has ended.
            continue


def is_polling(task: Path) -> bool:
    """Whether a thread, given as its folder in ``/proc``, has used processor time but has never waited.

    Raises:
        OSError, ValueError: the thread has ended.
    """
    # Fields 14 and 15 of the line: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    times = (task / "stat").read_text().rpartition(")")[2].split()[11:13]
    if sum(int(ticks) for ticks in times) < MIN_CPU_SECONDS * os.sysconf("SC_CLK_TCK"):
        return False
    return "\nvoluntary_ctxt_switches:\t0\n" in (task / "status").read_text()

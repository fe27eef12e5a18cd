"""End the cluster and remove every trace of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from epd_local.cluster import cgroups, own_folders, processes
from epd_local.errors import LocalClusterError
from epd_local.locations import Locations
from epd_local.progress import wait_until

END_SECONDS = 20.0


def end_processes(where: Locations) -> None:
    """Kill every process of the cluster.

    Raises:
        LocalClusterError: some are still there.
    """
    # The first process takes everything below it along, nodes and pods included; the rest is what it had not started.
    for process in sorted(processes.find(where.state), key=lambda found: not found.is_namespace_init):
        processes.end(process.pid)
    if not wait_until(lambda: not processes.find(where.state), seconds=END_SECONDS):
        left = ", ".join(str(process.pid) for process in processes.find(where.state))
        raise LocalClusterError(f"these processes of the cluster do not end: {left}")


def remove_everything(where: Locations) -> None:
    """End the cluster in whatever state it is, and remove its cgroups and folders. Nothing to remove is fine.

    Raises:
        LocalClusterError: something is still in use.
    """
    end_processes(where)
    found = cgroups.hierarchies()
    if left := cgroups.remove(where.name, where=found):
        raise LocalClusterError(f"these cgroups are still in use: {', '.join(map(str, left))}")
    own_folders.remove_unless_used()
    lock = where.state / "lock"
    for folder in (where.data, where.state):
        _refuse_mounts_below(folder)
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry == lock:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
    if where.data.is_dir() and not where.data.is_relative_to(where.state):
        where.data.rmdir()


def forget(where: Locations) -> None:
    """Remove the state folder itself, with the lock that the caller holds."""
    (where.state / "lock").unlink(missing_ok=True)
    where.state.rmdir()


def _refuse_mounts_below(folder: Path) -> None:
    """Never delete through a mount: what lies behind it is not the cluster's."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place = Path(line.split()[4])
        if place != folder and place.is_relative_to(folder):
            raise LocalClusterError(f"{place} is mounted below {folder}, which is to be removed: unmount it first")

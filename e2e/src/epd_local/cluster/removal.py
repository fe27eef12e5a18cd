"""Stops the cluster and removes all its files and processes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from epd_local.cluster import cgroups, own_folders, processes
from epd_local.cluster.config import FILE_NAME
from epd_local.errors import LocalClusterError
from epd_local.locations import DEFAULT_STATE, Locations
from epd_local.progress import wait_until

END_SECONDS = 20.0


def end_processes(where: Locations) -> None:
    """Kill every process of the cluster.

    Raises:
        LocalClusterError: some do not end.
    """
    # All nodes and pods end with process 1; other processes follow, if there are any.
    for process in sorted(processes.find(where.state), key=lambda found: not found.is_namespace_init):
        processes.end(process.pid)
    if not wait_until(lambda: not processes.find(where.state), seconds=END_SECONDS):
        left = ", ".join(str(process.pid) for process in processes.find(where.state))
        raise LocalClusterError(f"these processes of the cluster do not end: {left}")


def remove_everything(where: Locations) -> None:
    """Stop the cluster in any state, and remove its cgroups and folders, if there are any.

    Raises:
        LocalClusterError: something is still in use.
    """
    _refuse_foreign_folder(where)
    end_processes(where)
    found = cgroups.hierarchies()
    if left := cgroups.remove(where.name, where=found):
        raise LocalClusterError(f"these cgroups are still in use: {', '.join(map(str, left))}")
    own_folders.remove_unless_used()
    _remove_content(where.data)
    if where.data.is_dir():
        where.data.rmdir()
    # The file that marks the folder of a cluster is removed last, so that an interrupted removal can be repeated.
    _remove_content(where.state, keep=(where.state / "lock", where.state / FILE_NAME))
    (where.state / FILE_NAME).unlink(missing_ok=True)


def _remove_content(folder: Path, *, keep: Sequence[Path] = ()) -> None:
    _refuse_mounts_below(folder)
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry in keep:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _refuse_foreign_folder(where: Locations) -> None:
    """Refuse to empty a folder with other files, for example a home folder in ``EPD_STATE``."""
    if where.state == DEFAULT_STATE or not where.state.is_dir() or (where.state / FILE_NAME).exists():
        return
    if others := sorted(entry.name for entry in where.state.iterdir() if entry.name != "lock"):
        raise LocalClusterError(
            f"{where.state} contains files that do not belong to a cluster ({', '.join(others[:3])}, …): "
            "set EPD_STATE to a separate folder"
        )


def remove_state_folder(where: Locations) -> None:
    """Remove the state folder itself, with the lock that the caller holds."""
    (where.state / "lock").unlink(missing_ok=True)
    where.state.rmdir()


def _refuse_mounts_below(folder: Path) -> None:
    """Refuse to delete through a mount, because its files do not belong to the cluster."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount_point = Path(line.split()[4])
        if mount_point != folder and mount_point.is_relative_to(folder):
            raise LocalClusterError(
                f"{mount_point} is mounted below {folder}, which is to be removed: unmount it first"
            )

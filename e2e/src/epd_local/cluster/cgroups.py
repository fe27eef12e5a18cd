"""One cgroup per node, in version 1 or version 2, created before the kubelet starts and removed after it has ended."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from pathlib import Path

from epd_local.errors import LocalClusterError

# Controllers that the kubelet needs in version 2, if the kernel has them.
KUBELET_CONTROLLERS = ("cpu", "cpuset", "memory", "hugetlb", "pids", "io")
REMOVAL_SECONDS = 10.0


@dataclass(frozen=True)
class Hierarchies:
    """Where cgroups are mounted: one tree in version 2, one per controller in version 1."""

    version: int
    roots: tuple[Path, ...]
    # On a machine with both versions, runc creates cgroups in version 2 too, without any controller.
    beside: tuple[Path, ...] = ()

    @property
    def every(self) -> tuple[Path, ...]:
        """All mount points where the cluster may have cgroups."""
        return self.roots + self.beside


def parse_mounts(mountinfo: str) -> Hierarchies | None:
    """Read ``/proc/self/mountinfo``; None if no cgroup file system is mounted.

    A machine with both (the "hybrid" layout) counts as version 1, which has the controllers.
    """
    found: dict[str, list[Path]] = {"cgroup": [], "cgroup2": []}
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        kind = rest.split()[0] if rest else ""
        mount_point = Path(fields.split()[4]) if kind in found else None
        if mount_point is not None and mount_point not in found[kind]:
            found[kind].append(mount_point)
    if found["cgroup"]:
        return Hierarchies(version=1, roots=tuple(found["cgroup"]), beside=tuple(found["cgroup2"]))
    if found["cgroup2"]:
        return Hierarchies(version=2, roots=(found["cgroup2"][0],))
    return None


def hierarchies() -> Hierarchies:
    """Return the cgroups of this machine.

    Raises:
        LocalClusterError: none are mounted.
    """
    found = parse_mounts(Path("/proc/self/mountinfo").read_text())
    if found is None:
        raise LocalClusterError(
            "no cgroup file system is mounted: the nodes cannot limit their pods. On a machine, mount one "
            "(`mount -t cgroup2 none /sys/fs/cgroup`); in a container, start it privileged with `--cgroupns=host`"
        )
    return found


def create(cluster: str, node: str, *, where: Hierarchies) -> str:
    """Create the cgroup of a node in every hierarchy, and return its path for the kubelet."""
    for root in where.roots:
        folder = root / cluster / node
        try:
            if where.version == 2:
                _enable_controllers(root, folder)
            else:
                folder.mkdir(parents=True, exist_ok=True)
                _inherit_cpuset(root, root / cluster, folder)
        except OSError as error:
            raise LocalClusterError(f"cannot create the cgroup {folder} ({error.strerror}): {_fix(where)}") from error
    return f"/{cluster}/{node}"


def _fix(where: Hierarchies) -> str:
    if where.version == 2:
        return (
            "in a container with a cgroup namespace of its own, processes must first be moved out of its root cgroup "
            "(`mkdir /sys/fs/cgroup/init; for p in $(cat /sys/fs/cgroup/cgroup.procs); do "
            "echo $p > /sys/fs/cgroup/init/cgroup.procs; done`), and the cgroup must be mounted for writing"
        )
    return "the cgroups must be mounted for writing; in a container that takes `--privileged`"


def _inherit_cpuset(*folders: Path) -> None:
    """A new cpuset of version 1 has no processors and no memory nodes: copy those of its parent."""
    for parent, child in itertools.pairwise(folders):
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (parent / name).exists():
                (child / name).write_text((parent / name).read_text())


def _enable_controllers(root: Path, folder: Path) -> None:
    """Delegate every controller that the kubelet needs to *folder*; version 2 delegates none automatically."""
    available = (root / "cgroup.controllers").read_text().split()
    wanted = " ".join(f"+{name}" for name in KUBELET_CONTROLLERS if name in available)
    (root / "cgroup.subtree_control").write_text(wanted)
    parent = root
    for part in folder.relative_to(root).parts:
        parent = parent / part
        parent.mkdir(exist_ok=True)
        (parent / "cgroup.subtree_control").write_text(wanted)


def remove(cluster: str, node: str = "", *, where: Hierarchies) -> list[Path]:
    """Remove the cgroups of a node, or of the whole cluster, and return those that are still in use.

    The kernel empties a cgroup shortly after its last process was killed, so this tries for some seconds.
    """
    end = time.monotonic() + REMOVAL_SECONDS
    while True:
        for root in where.every:
            _remove_tree(root / cluster / node)
        left = [root / cluster / node for root in where.every if (root / cluster / node).exists()]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


def _remove_tree(folder: Path) -> None:
    if not folder.exists():
        return
    children = sorted((path for path in folder.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
    for cgroup in (*children, folder):
        try:
            cgroup.rmdir()
        except OSError:  # in use, or already removed; the caller checks again
            continue

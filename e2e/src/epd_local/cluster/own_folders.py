"""Folders of the machine over which every node mounts its own: created if missing, removed with the last cluster.

The kernel allows to remove a folder that is a mount point in another namespace, and removes that mount too. So the
folders stay until no cluster is running, because other clusters may have mounts there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epd_local.cluster import processes
from epd_local.locks import locked

OWN_FOLDERS = (
    Path("/var/lib/kubelet"),
    Path("/var/lib/containerd"),
    Path("/var/lib/cni"),
    Path("/var/log/pods"),
    Path("/var/log/containers"),
    Path("/etc/cni"),
)
RECORD = Path("/run/epd-operator-folders.json")
LOCK = Path("/run/epd-operator-folders.lock")


@contextmanager
def created() -> Iterator[None]:
    """Create the folders; the caller starts process 1 of its cluster inside, which keeps them from being removed."""
    with locked(LOCK, waiting_for="starting or ending a cluster"):
        record: list[str] = json.loads(RECORD.read_text()) if RECORD.exists() else []
        for folder in OWN_FOLDERS:
            for path in (*reversed(folder.parents), folder):
                if not path.exists():
                    record.append(str(path))
                    RECORD.write_text(json.dumps(record))
                    path.mkdir()
        yield


def remove_unless_used() -> None:
    """Remove the folders that were created, unless a cluster still runs or they are not empty."""
    with locked(LOCK, waiting_for="starting or ending a cluster"):
        if any(processes.states_in_use()):
            return
        if RECORD.exists():
            for text in reversed(json.loads(RECORD.read_text())):
                try:
                    Path(text).rmdir()
                except OSError:  # not empty any more, or already removed
                    continue
            RECORD.unlink()
        LOCK.unlink()

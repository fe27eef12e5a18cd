"""Folders of the machine over which every node lays its own: made where missing, removed with the last cluster.

The kernel lets a folder be removed although something is mounted over it in another namespace, and takes that mount
away too. So what one cluster made may carry another one's mounts, and stays until no cluster is left.
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
def made() -> Iterator[None]:
    """Make the folders; the caller starts its first process within, which from then on keeps them there."""
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
    """Remove the folders that were made, unless a cluster still runs; what is no longer empty stays."""
    with locked(LOCK, waiting_for="starting or ending a cluster"):
        if any(processes.states_in_use()):
            return
        if RECORD.exists():
            for text in reversed(json.loads(RECORD.read_text())):
                try:
                    Path(text).rmdir()
                except OSError:  # someone put something there since, or removed it
                    continue
            RECORD.unlink()
        LOCK.unlink()

"""Advisory file locks: one process works, the others wait."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, *, waiting_for: str) -> Iterator[None]:
    """Hold the lock *path*, which the kernel releases however the holder ends.

    The file may be removed by a holder; a waiter then notices that its lock no longer has a name, and starts again.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"[epd] waiting for another command that is {waiting_for}", file=sys.stderr, flush=True)
                fcntl.flock(handle, fcntl.LOCK_EX)
            if not _still_named(handle.fileno(), path):
                continue
            yield
            return


def _still_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False

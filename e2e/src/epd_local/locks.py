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
    """Hold the lock *path*; the kernel releases it when the holder ends for any reason.

    A holder may remove the file. A process that waited then has a lock without a file name, and starts again.
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

"""Mounts by system call.

``mount(8)`` first resolves ``/proc/PID/fd/N`` to a path, and so uses the mount that covers a folder instead of the
folder that was opened; the kernel does not.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MS_RDONLY = 0x1
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SHARED = 0x100000

CAP_SYS_RESOURCE = 24

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, *, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount a file system or a folder.

    Raises:
        OSError: the mount failed.
    """
    done = _libc.mount(source.encode(), bytes(target), kind.encode(), ctypes.c_ulong(flags), options.encode())
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mounting {source} on {target}: {os.strerror(code)}")


def set_propagation(flags: int) -> None:
    """Set how mounts below / propagate to other mount namespaces."""
    mount("none", Path("/"), flags=MS_REC | flags)


def bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    """Bind *source* (a folder or a file) to *target*, which must exist and be of the same type."""
    mount(str(source), target, flags=MS_BIND | MS_REC)
    if read_only:
        mount("none", target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Keep a folder or a file open, and yield a path to it that stays valid when a mount covers it."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def cover(folder: Path, *, keep: Callable[[Path], bool]) -> None:
    """Mount an empty tmpfs over *folder*, then bind those of its entries for which *keep* returns true."""
    kept = sorted(entry for entry in folder.iterdir() if keep(entry))
    links = {entry: entry.readlink() for entry in kept if entry.is_symlink()}
    held = {entry: os.open(entry, os.O_PATH | os.O_CLOEXEC) for entry in kept if entry not in links}
    are_folders = {entry: entry.is_dir() for entry in held}
    mount("tmpfs", folder, kind="tmpfs", options="mode=755")
    for entry, target in links.items():
        entry.symlink_to(target)
    for entry, descriptor in held.items():
        if are_folders[entry]:
            entry.mkdir()
        else:
            entry.touch()
        bind(Path(f"/proc/self/fd/{descriptor}"), entry)
        os.close(descriptor)


def has_capability(number: int) -> bool:
    """Return whether this process has a capability."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


def file_system_of(path: Path) -> str:
    """Return the type of the file system of *path*, such as ``ext4`` or ``overlay``."""
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        if fields.split()[2] == wanted:
            return rest.split()[0]
    return ""

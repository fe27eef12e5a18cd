"""Images of the cluster: kept as archives, imported into every node's containerd, and again when a node returns."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from epd_local.errors import LocalClusterError
from epd_local.progress import call

CHUNK_BYTES = 1 << 20


def keep_archives(archives: Sequence[Path], *, store: Path) -> list[Path]:
    """Copy image archives into the cluster's store under the hash of their content, and return the copies.

    Raises:
        LocalClusterError: a file is missing.
    """
    store.mkdir(parents=True, exist_ok=True)
    kept = []
    for archive in archives:
        if not archive.is_file():
            raise LocalClusterError(f"there is no image archive {archive}; `image` makes them and prints their paths")
        copy = store / f"{_hash_of(archive)}.tar"
        if not copy.exists():
            partial = copy.with_suffix(".partial")
            shutil.copyfile(archive, partial)
            partial.rename(copy)
        copy.touch()  # the newest of two archives with one tag is imported last and wins
        kept.append(copy)
    return kept


def import_images(store: Path, *, imported: Path, snapshotter: str) -> None:
    """Import into this node's containerd every archive of the store that it does not have, oldest first."""
    imported.mkdir(parents=True, exist_ok=True)
    for archive in sorted(store.glob("*.tar"), key=lambda path: path.stat().st_mtime):
        import_archive(archive, imported=imported, snapshotter=snapshotter)


def import_archive(archive: Path, *, imported: Path, snapshotter: str) -> None:
    """Import one archive into this node's containerd unless its newest loading was imported already."""
    done = imported / archive.stem
    if done.exists() and done.stat().st_mtime >= archive.stat().st_mtime:
        return
    command = ["ctr", "--namespace", "k8s.io", "images", "import", "--snapshotter", snapshotter, archive]
    call(command, what=f"importing {archive.name}")
    done.touch()


def _hash_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()

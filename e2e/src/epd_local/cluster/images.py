"""Images of the cluster: stored as archives, and imported into the containerd of every node, also at a restart."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

from epd_local.errors import LocalClusterError
from epd_local.progress import call

CHUNK_BYTES = 1 << 20


def keep_archives(archives: Sequence[Path], *, store: Path, immutable: Path) -> list[Path]:
    """Store image archives under the hash of their content, and return the stored archives.

    Args:
        archives: the files to store.
        store: folder of the archives, until the cluster ends.
        immutable: a folder whose files are never changed: these need no copy.

    Raises:
        LocalClusterError: a file is missing or is not an archive.
    """
    store.mkdir(parents=True, exist_ok=True)
    kept = []
    for archive in archives:
        if not archive.is_file():
            raise LocalClusterError(
                f"image archive {archive} not found; `image` builds archives and prints their paths"
            )
        references(archive)
        copy = store / f"{_hash_of(archive)}.tar"
        if not copy.exists():
            partial = copy.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            _link_or_copy(archive, partial, may_link=archive.resolve().is_relative_to(immutable))
            partial.rename(copy)
        copy.touch()  # of two archives with the same reference the newer one is imported later and replaces the other
        _remove_superseded(copy, store=store)
        kept.append(copy)
    return kept


def _link_or_copy(archive: Path, to: Path, *, may_link: bool) -> None:
    if may_link:
        try:
            to.hardlink_to(archive.resolve())
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM):
                raise
        else:
            return
    shutil.copyfile(archive, to)


def references(archive: Path) -> frozenset[str]:
    """Return the names of the images in an archive.

    Raises:
        LocalClusterError: it is not an image archive.
    """
    try:
        with tarfile.open(archive) as content:
            manifest = content.extractfile("manifest.json")
            images = json.load(manifest) if manifest else []
    except (tarfile.TarError, KeyError, ValueError) as error:
        raise LocalClusterError(f"{archive} is not a `docker save` archive") from error
    return frozenset(reference for image in images for reference in image.get("RepoTags") or ())


def _remove_superseded(newest: Path, *, store: Path) -> None:
    """Remove archives of which every image has a newer version: nodes do not need them any more."""
    named = references(newest)
    for other in store.glob("*.tar"):
        if other != newest and references(other) <= named:
            other.unlink()


def import_images(store: Path, *, imported: Path) -> None:
    """Import all new archives of the store into the containerd of this node, oldest first."""
    imported.mkdir(parents=True, exist_ok=True)
    for archive in sorted(store.glob("*.tar"), key=lambda path: path.stat().st_mtime):
        import_archive(archive, imported=imported)


def import_archive(archive: Path, *, imported: Path) -> None:
    """Import one archive into the containerd of this node, unless this version was imported already."""
    done = imported / archive.stem
    if done.exists() and done.stat().st_mtime >= archive.stat().st_mtime:
        return
    # Unpacked when the first pod needs it: most images are used on few nodes.
    command = ["ctr", "--namespace", "k8s.io", "images", "import", "--no-unpack", archive]
    call(command, what=f"importing {archive.name}")
    done.touch()


def _hash_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()

"""Writes container images as ``docker save`` archives, which every container runtime can import."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Layer:
    """A layer built in memory; the same content gives the same bytes."""

    def __init__(self) -> None:
        """Start an empty layer."""
        self._buffer = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._buffer, mode="w", format=tarfile.PAX_FORMAT)

    def folder(self, name: str, *, mode: int = 0o755) -> None:
        """Add an empty folder."""
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(entry)

    def file(self, name: str, content: bytes, *, mode: int = 0o644) -> None:
        """Add a file."""
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(content), mode
        self._tar.addfile(entry, io.BytesIO(content))

    def link(self, name: str, to: str) -> None:
        """Add a symbolic link."""
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = tarfile.SYMTYPE, to
        self._tar.addfile(entry)

    def finish(self) -> bytes:
        """Return the layer; nothing can be added afterwards."""
        self._tar.close()
        return self._buffer.getvalue()


@dataclass(frozen=True)
class Image:
    """An image of one layer."""

    reference: str  # with registry and tag, as the container runtime needs it
    layer: bytes
    settings: Mapping[str, Any]  # Entrypoint, Cmd, Env, … of the image's configuration
    architecture: str


def write(image: Image, path: Path) -> None:
    """Write the archive; it has its final name only when it is complete."""
    layer = hashlib.sha256(image.layer).hexdigest()
    content = {
        "architecture": image.architecture,
        "os": "linux",
        "config": dict(image.settings),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
    }
    config = json.dumps(content, sort_keys=True).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [image.reference], "Layers": [f"{layer}/layer.tar"]}]
    archive = Layer()
    archive.file(config_name, config)
    archive.file(f"{layer}/layer.tar", image.layer)
    archive.file("manifest.json", json.dumps(manifest).encode())
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(archive.finish())
    partial.rename(path)

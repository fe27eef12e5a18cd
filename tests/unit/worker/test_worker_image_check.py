"""The build of a worker image fails if its base lacks a part."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[3] / "worker_images"
SOURCES = IMAGES / "src"


def check(tmp_path: Path, *, modules: tuple[str, ...], library: str | None, plugin: bool = True) -> str:
    """The output of the check in an environment with these modules and this content of NIXL's library."""
    for name in modules:
        folder = tmp_path / "packages" / name.replace(".", "/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    if library is not None:
        build(libraries / "libnixl_capi.so", needs=library)
    if plugin:
        (libraries / "libplugin_UCX.so").touch()
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path / 'packages'}:{SOURCES}",
        "LD_LIBRARY_PATH": str(libraries),
        "NIXL_PLUGIN_DIR": str(libraries),
    }
    command = [sys.executable, "-S", "-m", "epd_worker.image_check"]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode == 0) == (done.stderr == "")
    return done.stderr


def build(file: Path, *, needs: str) -> None:
    """Copy a library of this machine; with ``needs`` one of its needs gets another name, which does not exist."""
    source = next(Path(path) for path in loaded_libraries() if "libz" in path or "libbz2" in path or "libffi" in path)
    content = source.read_bytes()
    file.write_bytes(content.replace(b"libc.so.6\0", b"libcu.so.\0", 1) if needs else content)


def loaded_libraries() -> list[str]:
    command = [sys.executable, "-c", "import zlib, bz2, ctypes; print(open('/proc/self/maps').read())"]
    maps = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(r"(/\S+/lib(?:z|bz2|ffi)\.so\S*)", maps)


ALL = ("dynamo.vllm", "dynamo.frontend", "vllm", "nixl")


def test_a_complete_image_passes(tmp_path: Path) -> None:
    assert check(tmp_path, modules=ALL, library="") == ""


def test_a_library_of_the_driver_may_be_missing_without_a_gpu(tmp_path: Path) -> None:
    assert check(tmp_path, modules=ALL, library="driver") == ""


@pytest.mark.parametrize(
    ("modules", "library", "plugin", "missing"),
    [
        (ALL[:-1], "", True, "the module nixl"),
        (ALL[2:], "", True, "the module dynamo.vllm; the module dynamo.frontend"),
        (ALL, None, True, "libnixl_capi.so on LD_LIBRARY_PATH"),
        (ALL, "", False, "libplugin_UCX.so in NIXL_PLUGIN_DIR"),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path, modules: tuple[str, ...], library: str | None, plugin: bool, missing: str
) -> None:
    assert missing in check(tmp_path, modules=modules, library=library, plugin=plugin)


@pytest.mark.parametrize("file", ["Containerfile.cpu", "Containerfile.gpu"])
def test_every_worker_image_is_checked(file: str) -> None:
    assert "python3 -m epd_worker.image_check" in (IMAGES / file).read_text()

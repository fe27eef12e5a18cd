"""The Python environment of the serving processes, installed once outside the clone.

``python3 -m epd_local.worker_env`` installs ``worker_images/requirements.lock`` (Dynamo, vLLM for CPUs, NIXL) into
``<cache>/worker-env/<key>/site-packages`` and prints that folder. The key names the lock's content and the Python
version, so that a changed lock makes a new folder and running workers keep theirs.

The base Python runs it with ``PYTHONPATH=<site-packages>``. Two more variables are needed, both relative to
site-packages (an image that mounts the folder at ``/opt/epd/site-packages`` states them with that prefix):

* ``LD_LIBRARY_PATH`` must hold ``.nixl_cu13.mesonpy.libs`` (`NIXL_LIBRARIES`). Dynamo opens ``libnixl_capi.so`` by name
  at run time; without it the frontend runs NIXL "in stub mode" and a model with frontend decoding is never listed.
* ``NIXL_PLUGIN_DIR`` must be ``.nixl_cu13.mesonpy.libs/plugins`` (`NIXL_PLUGINS`), where UCX's backend lies.

Small and quick to start on a CPU, seen in all roles (`LEAN_ENVIRONMENT` and `LEAN_ARGUMENTS` of ``dynamo.vllm``): the
model's executor inside the engine's process instead of a process of its own, and a small key-value cache. Of start-up
nearly everything is imports (the engine's own warm-up takes half a second), so a process less counts most.

========== ====================== =====================
role       without                with
========== ====================== =====================
aggregated 3.9 GB, 27 s of CPU    2.1 GB, 16 s of CPU
PD         4.4 GB                 2.1 GB, 17 s of CPU
encoder    3.5 GB                 1.0 GB, 9 s of CPU
========== ====================== =====================

``VLLM_CPU_KVCACHE_SPACE`` must then be unset: it takes whole gibibytes and overrides ``--kv-cache-memory-bytes``.

Standard library only: this runs before anything of the project is installed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from epd_local.errors import CommandFailedError, LocalClusterError
from epd_local.locks import locked
from epd_local.progress import call, step

REPOSITORY = Path(__file__).resolve().parents[3]
LOCK = REPOSITORY / "worker_images" / "requirements.lock"
UV_LOCK = REPOSITORY / "tests" / "uv.lock"

NIXL_LIBRARIES = ".nixl_cu13.mesonpy.libs"
NIXL_PLUGINS = f"{NIXL_LIBRARIES}/plugins"

LEAN_ENVIRONMENT = {
    # Only without it does vLLM accept the "uni" executor on a CPU; the engine keeps a process of its own all the same.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    # The sampler compiles C++ at the first request otherwise, for minutes on a busy machine.
    "TORCH_COMPILE_DISABLE": "1",
}
LEAN_ARGUMENTS = (
    *("--dtype", "float32", "--max-model-len", "2048", "--enforce-eager", "--max-num-seqs", "8"),
    *("--distributed-executor-backend", "uni", "--kv-cache-memory-bytes", "134217728"),
)

SUPPORTED_PYTHONS = ((3, 11), (3, 12), (3, 13))
# Part of the key: raise it when the way of installing changes what lands in the folder.
RECIPE = "1"


class WorkerEnvironmentError(LocalClusterError):
    """The environment could not be installed; the message says what to do about it."""


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the project's cache folder, which lies outside the clone and is shared by all clones of a user."""
    if chosen := environ.get("EPD_CACHE"):
        return Path(chosen)
    home = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "epd-operator"


def base_python() -> Path:
    """Return the interpreter outside any virtual environment: the one that workers run."""
    return Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def environment_key(lock: bytes, *, python: str, machine: str) -> str:
    """Return the folder name for a lock, a Python version such as ``3.11`` and a machine such as ``x86_64``."""
    return hashlib.sha256(b"\0".join([RECIPE.encode(), python.encode(), machine.encode(), lock])).hexdigest()[:16]


def runtime_environment(site_packages: Path) -> dict[str, str]:
    """Return the variables with which the base Python runs Dynamo from *site_packages* on a machine without a GPU."""
    return {
        "PYTHONPATH": str(site_packages),
        "LD_LIBRARY_PATH": str(site_packages / NIXL_LIBRARIES),
        "NIXL_PLUGIN_DIR": str(site_packages / NIXL_PLUGINS),
        "VLLM_TARGET_DEVICE": "cpu",
        **LEAN_ENVIRONMENT,
    }


def ensure() -> Path:
    """Install the environment unless it is there, and return its site-packages folder.

    Safe to call from several processes at once: one installs, the others wait. A folder appears under its final name
    only when it is complete.

    Raises:
        LocalClusterError: this Python has no wheels for it, or uv could not be had or failed.
    """
    version = sys.version_info[:2]
    if version not in SUPPORTED_PYTHONS:
        known = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED_PYTHONS)
        raise WorkerEnvironmentError(
            f"vLLM has no wheels for Python {version[0]}.{version[1]}: run the project with one of {known}"
        )
    key = environment_key(LOCK.read_bytes(), python=f"{version[0]}.{version[1]}", machine=platform.machine())
    home = cache_root() / "worker-env"
    final = home / key / "site-packages"
    if final.is_dir():
        return final
    with locked(home / f".{key}.lock", waiting_for="installing the worker environment"):
        if not final.is_dir():
            partial = home / f".{key}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            _install(partial / "site-packages")
            partial.rename(home / key)
    return final


def _install(target: Path) -> None:
    """Install the lock into *target* and compile its bytecode, since workers mount it read-only."""
    command = [str(find_uv()), "pip", "install", "--quiet", "--python", str(base_python()), "--target", str(target)]
    command += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--compile-bytecode", "-r", str(LOCK)]
    what = "installing the worker environment (6 GB: Dynamo, vLLM, NIXL)"
    with step(what, usually="30 s to 2 minutes, plus the download the first time"):
        try:
            call(command, what=what)
        except CommandFailedError as error:
            raise WorkerEnvironmentError(
                f"{error}\nCheck that a Python package index can be reached and that the disk of {cache_root()} has "
                "10 GB free (EPD_CACHE chooses another place), then run it again"
            ) from error


def find_uv() -> Path:
    """Return a working uv: the one of this machine, or a private copy in the cache made from the hashed lock."""
    for candidate in (shutil.which("uv"), str(Path(sys.prefix) / "bin" / "uv")):
        if candidate and _works(candidate):
            return Path(candidate)
    key = private_uv_key()
    home = cache_root() / "uv" / key
    uv = home / "bin" / "uv"
    with locked(home.parent / f".{key}.lock", waiting_for="installing uv"):
        if not (uv.exists() and _works(str(uv))):
            shutil.rmtree(home, ignore_errors=True)
            _make_private_uv(home)
    return uv


def private_uv_key() -> str:
    """Return the folder name of the private uv: it holds a virtual environment of this very Python."""
    return hashlib.sha256(UV_LOCK.read_bytes() + sys.version.encode() + sys.base_prefix.encode()).hexdigest()[:16]


def _make_private_uv(home: Path) -> None:
    can_make = [str(base_python()), "-c", "import ensurepip, venv"]
    if subprocess.run(can_make, capture_output=True, check=False).returncode:
        raise WorkerEnvironmentError(
            f"{base_python()} cannot make virtual environments: run `apt-get install python3-venv`, "
            "or put the program `uv` on PATH"
        )
    with step("installing uv into the cache", usually="5 s"):
        call([base_python(), "-m", "venv", home], what="making a virtual environment for uv")
        pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        call([*pip, "--require-hashes", "--no-deps", "-r", str(UV_LOCK)], what="installing uv with pip")


def _works(uv: str) -> bool:
    try:
        return subprocess.run([uv, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def main() -> int:
    """Print the site-packages folder, after installing it if need be."""
    try:
        print(ensure())
    except LocalClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

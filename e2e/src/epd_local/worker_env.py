"""The Python environment of the serving processes, installed once outside the clone.

``python3 -m epd_local.worker_env`` installs ``worker_images/requirements.lock`` (Dynamo, vLLM for CPUs, NIXL) into
``<cache>/worker-env/<key>/site-packages`` and prints that folder. The key names the lock's content and the Python
version, so that a changed lock gets a new folder and running workers keep theirs.

The base Python runs it with ``PYTHONPATH=<site-packages>``. Two more variables are needed, both relative to
site-packages (an image that mounts the folder at ``/opt/epd/site-packages`` sets them with that prefix):

* ``LD_LIBRARY_PATH`` must hold ``.nixl_cu13.mesonpy.libs`` (`NIXL_LIBRARIES`). Dynamo opens ``libnixl_capi.so`` by name
  at run time; without it the frontend runs NIXL "in stub mode" and a model with frontend decoding is never listed.
* ``NIXL_PLUGIN_DIR`` must be ``.nixl_cu13.mesonpy.libs/plugins`` (`NIXL_PLUGINS`), the folder of the UCX backend.

`LEAN_ENVIRONMENT` and the arguments in ``examples/local`` make a worker on a CPU small and quick to start: the model's
executor runs inside the process of the engine, and the KV cache is small. Imports take nearly all of the start-up time
(the warm-up of the engine takes half a second), so one process less has the largest effect. Measured:

========== ====================== =====================
role       without                with
========== ====================== =====================
aggregated 3.9 GB, 27 s of CPU    2.1 GB, 16 s of CPU
PD         4.4 GB                 2.1 GB, 17 s of CPU
encoder    3.5 GB                 1.0 GB, 9 s of CPU
========== ====================== =====================

``VLLM_CPU_KVCACHE_SPACE`` must then be unset: it has whole GiB as its unit and overrides ``--kv-cache-memory-bytes``.

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
    # Needed for the "uni" executor on a CPU; the engine still has a process of its own.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    # Otherwise the sampler compiles C++ at the first request, which takes minutes on a busy machine.
    "TORCH_COMPILE_DISABLE": "1",
}

SUPPORTED_PYTHONS = ((3, 11), (3, 12), (3, 13))
# Part of the key: increase it when a change of the installation changes the content of the folder.
RECIPE = "1"


class WorkerEnvironmentError(LocalClusterError):
    """The environment could not be installed; the message has the fix."""


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the cache folder of the project, outside of the clone and shared by all clones of a user."""
    if chosen := environ.get("EPD_CACHE"):
        return Path(chosen)
    home = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "epd-operator"


def base_python() -> Path:
    """Return the interpreter outside of any virtual environment, which runs the workers."""
    return Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def environment_key(lock: bytes, *, python: str, machine: str) -> str:
    """Return the folder name for a lock, a Python version such as ``3.11`` and a machine such as ``x86_64``."""
    return hashlib.sha256(b"\0".join([RECIPE.encode(), python.encode(), machine.encode(), lock])).hexdigest()[:16]


def ensure() -> Path:
    """Install the environment if it is missing, and return its site-packages folder.

    Safe to call from several processes at once: one installs, the others wait. A folder has its final name only when it
    is complete.

    Raises:
        LocalClusterError: there are no wheels for this Python, or uv is missing or failed.
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
    """Install the lock into *target* and compile its bytecode, because workers mount it read-only."""
    command = [str(find_uv()), "pip", "install", "--quiet", "--python", str(base_python()), "--target", str(target)]
    command += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--compile-bytecode", "-r", str(LOCK)]
    what = "installing the worker environment (6 GB: Dynamo, vLLM, NIXL)"
    with step(what, usually="30 s to 2 minutes, plus the download the first time"):
        try:
            call(command, what=what)
        except CommandFailedError as error:
            raise WorkerEnvironmentError(
                f"{error}\nCheck that a Python package index is reachable and that the disk of {cache_root()} has "
                "10 GB free (EPD_CACHE sets another folder), then run it again"
            ) from error


def find_uv() -> Path:
    """Return a working uv: the one of this machine, or a private copy in the cache, installed from the hashed lock."""
    for candidate in (shutil.which("uv"), str(Path(sys.prefix) / "bin" / "uv")):
        if candidate and _works(candidate):
            return Path(candidate)
    key = private_uv_key()
    home = cache_root() / "uv" / key
    uv = home / "bin" / "uv"
    with locked(home.parent / f".{key}.lock", waiting_for="installing uv"):
        if not (uv.exists() and _works(str(uv))):
            shutil.rmtree(home, ignore_errors=True)
            _install_private_uv(home)
    return uv


def private_uv_key() -> str:
    """Return the folder name of the private uv, which is in a virtual environment of this Python."""
    return hashlib.sha256(UV_LOCK.read_bytes() + sys.version.encode() + sys.base_prefix.encode()).hexdigest()[:16]


def _install_private_uv(home: Path) -> None:
    has_venv = [str(base_python()), "-c", "import ensurepip, venv"]
    if subprocess.run(has_venv, capture_output=True, check=False).returncode:
        raise WorkerEnvironmentError(
            f"{base_python()} cannot create virtual environments: run `apt-get install python3-venv`, "
            "or put the program `uv` on PATH"
        )
    with step("installing uv into the cache", usually="5 s"):
        call([base_python(), "-m", "venv", home], what="creating a virtual environment for uv")
        pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        call([*pip, "--require-hashes", "--no-deps", "-r", str(UV_LOCK)], what="installing uv with pip")


def _works(uv: str) -> bool:
    try:
        return subprocess.run([uv, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def main() -> int:
    """Print the site-packages folder; install it first if necessary."""
    try:
        print(ensure())
    except LocalClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

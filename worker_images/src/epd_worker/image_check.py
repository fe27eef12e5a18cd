"""Checks a worker image while it is built, so that a broken base fails there and not in a pod.

Nothing is imported or initialised that needs a GPU.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

MODULES = ("dynamo.vllm", "dynamo.frontend", "vllm", "nixl", "epd_worker")
OLDEST_PYTHON = (3, 11)
LIBRARY = "libnixl_capi.so"
"""Dynamo opens it by name at run time. Without it a frontend uses a stub, and lists no model with frontend decoding."""
PLUGIN = "libplugin_UCX.so"


def problems() -> list[str]:
    """What is missing in this image."""
    found = [f"the module {name}" for name in MODULES if not _has_module(name)]
    if sys.version_info < OLDEST_PYTHON:
        found.append("Python 3.11 or newer")
    if not _has_library():
        found.append(f"{LIBRARY} on LD_LIBRARY_PATH: add the folder of NIXL's libraries")
    plugins = os.environ.get("NIXL_PLUGIN_DIR")
    if plugins and not Path(plugins, PLUGIN).is_file():
        found.append(f"{PLUGIN} in NIXL_PLUGIN_DIR ({plugins})")
    return found


def _has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _has_library() -> bool:
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        # The loader names the file that it did not find. A library of the driver is missing only without a GPU.
        return not str(error).startswith(LIBRARY)
    return True


def main() -> None:
    """Print what is missing, and end with 1 if anything is."""
    found = problems()
    if found:
        sys.exit("missing in this image: " + "; ".join(found))


if __name__ == "__main__":
    main()

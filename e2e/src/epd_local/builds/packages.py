"""Debian packages that the local cluster needs; a package is present when its programs are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from epd_local.errors import CommandFailedError, LocalClusterError
from epd_local.progress import call, step

# Folders of the CNI plugins: the one of the Debian package first, then the one in the CNI documentation.
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CNI_PLUGINS = ("ptp", "host-local", "portmap", "loopback")
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Package:
    """A Debian package and its programs."""

    name: str
    programs: tuple[str, ...]
    purpose: str


CLUSTER_PACKAGES = (
    Package("util-linux", ("unshare", "nsenter", "mount"), "namespaces"),
    Package("iproute2", ("ip",), "network of the nodes"),
    Package("containerd", ("containerd", "ctr"), "container runtime of the nodes"),
    Package("runc", ("runc",), "container runtime of the nodes"),
    Package("containernetworking-plugins", (), "network of the pods"),
    Package("nftables", ("nft",), "Services (kube-proxy)"),
    Package("iptables", ("iptables",), "host ports and the kubelet"),
    Package("conntrack", ("conntrack",), "Services (kube-proxy)"),
    Package("openssl", ("openssl",), "certificates of the cluster"),
    Package("busybox-static", (), "shell of the small worker image"),
)
IMAGE_PACKAGES = (
    Package("buildah", ("buildah",), "building the operator's image"),
    Package("mmdebstrap", ("mmdebstrap",), "base of the operator's image"),
)


def cni_folder() -> Path | None:
    """Return the folder of the CNI plugins, or None."""
    return next((folder for folder in CNI_FOLDERS if all((folder / plugin).exists() for plugin in CNI_PLUGINS)), None)


def is_present(package: Package) -> bool:
    """Return whether the programs of the package are on this machine, from any source."""
    if package.name == "containernetworking-plugins":
        return cni_folder() is not None
    if package.name == "busybox-static":
        return static_busybox() is not None
    return all(shutil.which(program, path=SEARCH_PATH) for program in package.programs)


def static_busybox() -> Path | None:
    """Return a busybox that runs in an empty file system, or None."""
    found = shutil.which("busybox", path=SEARCH_PATH)
    # A dynamically linked program has the path of its loader in an ELF segment of type PT_INTERP.
    if found and b"/ld-" not in Path(found).read_bytes()[:4096]:
        return Path(found)
    return None


def missing(packages: Iterable[Package], *, present: Callable[[Package], bool] = is_present) -> list[Package]:
    """Return the packages that are not present."""
    return [package for package in packages if not present(package)]


def ensure(packages: Iterable[Package]) -> list[Package]:
    """Install the packages that are missing, and return them.

    Raises:
        LocalClusterError: not on a Debian-like system or not root, and something is missing.
    """
    lacking = missing(packages)
    if lacking:
        _install(lacking)
    if still := missing(lacking):
        raise LocalClusterError(
            f"these packages are installed, but their programs are not on {SEARCH_PATH}: {describe(still)}"
        )
    return lacking


def describe(packages: Iterable[Package]) -> str:
    """Return names and purposes for a message."""
    return ", ".join(f"{package.name} ({package.purpose})" for package in packages)


def _install(lacking: list[Package]) -> None:
    names = [package.name for package in lacking]
    if not shutil.which("apt-get"):
        raise LocalClusterError(
            f"these packages are missing: {describe(lacking)}. This is not a Debian-like system (no apt-get): install "
            "them with its own package manager, then run this again"
        )
    if os.geteuid() != 0:
        raise LocalClusterError(
            f"these packages are missing: {describe(lacking)}. Run `sudo apt-get install {' '.join(names)}`, "
            "or run this command as root"
        )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with step(f"installing Debian packages: {', '.join(names)}", usually="1 minute"):
        try:
            call(["apt-get", "-q", "update"], what="apt-get update", environment=environment)
        except CommandFailedError as error:
            # A broken third-party source fails the update, although the lists of Debian itself are current.
            print(f"[epd] warning: {error}")
        # RUNLEVEL=1 keeps Debian from starting services of new packages: the cluster runs its own containerd.
        call(
            ["apt-get", "-q", "install", "--yes", "--no-install-recommends", *names],
            what="apt-get install",
            environment={**environment, "RUNLEVEL": "1"},
        )

"""A base image with Python from the packages of the Debian-like system that the machine itself runs."""

from __future__ import annotations

import shutil
from pathlib import Path

from epd_local.builds.recipes import content_key
from epd_local.errors import LocalClusterError
from epd_local.image.buildah import Buildah
from epd_local.progress import call, step

PACKAGES = ("ca-certificates", "python3-minimal", "python3-venv")
# Raise it to have the base made anew, with today's security updates.
RECIPE = "1"

# Documentation and translations are of no use in a container.
UNWANTED = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
MERGED_USR_HOOK = Path("/usr/share/mmdebstrap/hooks/merged-usr")
# How the machine fetches packages is its own affair: it must not be found in an image.
CLEAN_UP = 'cd "$1" && rm -rf etc/apt/apt.conf.d/99* etc/apt/sources.list* etc/resolv.conf etc/hostname var/log/*'


def base_key(*, suite: str) -> str:
    """Return what names the content of the base."""
    return content_key([], recipe=(RECIPE, suite, *PACKAGES, *UNWANTED))


def this_suite(os_release: str | None = None) -> str:
    """Return the code name of this machine's release, such as ``bookworm``.

    Raises:
        LocalClusterError: the machine is not Debian or Ubuntu.
    """
    text = Path("/etc/os-release").read_text() if os_release is None else os_release
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME" and value:
            return value.strip('"')
    raise LocalClusterError(
        "the operator's image is made from Debian packages, which this system does not have: build it elsewhere with "
        "`buildah bud operator/` and load the archive with `load-image`"
    )


def ensure(buildah: Buildah, *, suite: str, scratch: Path) -> str:
    """Return the name of the base in the store, making it if need be.

    Args:
        buildah: the store.
        suite: the release to take packages from.
        scratch: folder for the intermediate archive.
    """
    tag = f"localhost/epd-operator/base:{base_key(suite=suite)}"
    if not buildah.has(tag):
        archive = scratch / "debian-base.partial.tar"
        with step(f"base image from Debian packages ({suite})", usually="1 minute"):
            call(bootstrap_command(suite, archive), what="mmdebstrap", stdin=_sources(suite))
            buildah.import_root(archive, tag=tag)
        archive.unlink()
    return tag


def bootstrap_command(suite: str, archive: Path) -> list[str]:
    """Return the command that makes the archive of the root file system; it reads its sources from stdin."""
    included = [*PACKAGES]
    command = ["nice", "-n", "10", "mmdebstrap", "--quiet", "--variant=essential", "--format=tar"]
    if suite == "bookworm" and MERGED_USR_HOOK.is_dir():
        # The package that this one stands in for brings all of Perl along.
        included.append("usr-is-merged")
        command.append(f"--hook-dir={MERGED_USR_HOOK}")
    command += [f"--include={','.join(included)}", '--aptopt=APT::Install-Recommends "false"']
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in UNWANTED]
    command += [f"--aptopt={line}" for line in _transport_settings()]
    return [*command, f"--customize-hook={CLEAN_UP}", suite, str(archive), "-"]


def _sources(suite: str) -> str:
    """Return the machine's own sources of the suite, without those of third parties."""
    fields = "$(ORIGIN)|$(CODENAME)|deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    listed = call(["apt-get", "indextargets", "--format", fields, "Created-By: Packages"], what="reading apt's sources")
    return select_sources(listed, suite=suite)


def select_sources(listed: str, *, suite: str) -> str:
    """Return the lines of Debian or Ubuntu for a suite and its updates, from ``ORIGIN|CODENAME|LINE`` per line.

    Raises:
        LocalClusterError: there are none.
    """
    chosen = set()
    for line in listed.splitlines():
        origin, _, rest = line.partition("|")
        codename, _, source = rest.partition("|")
        if origin in ("Debian", "Ubuntu") and codename.startswith(suite):
            chosen.add(source)
    if not chosen:
        raise LocalClusterError(f"apt has no package lists of {suite}: run `apt-get update`")
    return "\n".join(sorted(chosen)) + "\n"


def _transport_settings() -> list[str]:
    """Return apt's settings of proxies and certificates, for mmdebstrap, which does not read the machine's own."""
    if not shutil.which("apt-config"):
        return []
    return transport_settings(call(["apt-config", "dump"], what="reading apt's settings"))


def transport_settings(dump: str) -> list[str]:
    """Choose from ``apt-config dump`` what says how packages are reached."""
    prefixes = ("Acquire::http::", "Acquire::https::", "Acquire::Check-", "Acquire::Retries")
    return [line.rstrip(";") for line in dump.splitlines() if line.startswith(prefixes) and not line.endswith('"";')]

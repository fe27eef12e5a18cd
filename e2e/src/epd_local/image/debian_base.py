"""A base image with Python, from packages of the Debian release of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from epd_local.builds.recipes import content_key
from epd_local.errors import LocalClusterError
from epd_local.image.buildah import Buildah
from epd_local.progress import call, step

PACKAGES = ("ca-certificates", "python3-minimal", "python3-venv", "libstdc++6")
# Increase it to build the base again, with current security updates.
RECIPE = "1"

# Documentation and translations are not needed in a container.
UNWANTED = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
MERGED_USR_HOOK = Path("/usr/share/mmdebstrap/hooks/merged-usr")
# The package settings of the machine must not be part of an image.
CLEAN_UP = 'cd "$1" && rm -rf etc/apt/apt.conf.d/99* etc/apt/sources.list* etc/resolv.conf etc/hostname var/log/*'


def base_key(*, suite: str) -> str:
    """Return the key of the content of the base."""
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
        "the operator's image is built from Debian packages, and this system is not Debian or Ubuntu: build it on "
        "another machine with `buildah bud operator/` and load the archive with `load-image`"
    )


def ensure(buildah: Buildah, *, suite: str, scratch: Path) -> str:
    """Return the name of the base in the store; builds it if necessary.

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
    """Return the command that creates the archive of the root file system; it reads the package sources from stdin."""
    included = [*PACKAGES]
    command = ["nice", "-n", "10", "mmdebstrap", "--quiet", "--variant=essential", "--format=tar"]
    if suite == "bookworm" and MERGED_USR_HOOK.is_dir():
        # It replaces usrmerge, which depends on all of Perl.
        included.append("usr-is-merged")
        command.append(f"--hook-dir={MERGED_USR_HOOK}")
    command += [f"--include={','.join(included)}", '--aptopt=APT::Install-Recommends "false"']
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in UNWANTED]
    command += [f"--aptopt={line}" for line in _transport_settings()]
    return [*command, f"--customize-hook={CLEAN_UP}", suite, str(archive), "-"]


def _sources(suite: str) -> str:
    """Return the package sources of the suite on this machine, without third parties."""
    fields = "$(ORIGIN)|$(CODENAME)|deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    listed = call(["apt-get", "indextargets", "--format", fields, "Created-By: Packages"], what="reading apt's sources")
    return select_sources(listed, suite=suite)


def select_sources(listed: str, *, suite: str) -> str:
    """Return the sources of Debian or Ubuntu for a suite and its updates, from lines ``ORIGIN|CODENAME|SOURCE``.

    Raises:
        LocalClusterError: there is no source.
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
    """Return apt's proxy and certificate settings for mmdebstrap, which does not read those of the machine."""
    if not shutil.which("apt-config"):
        return []
    return transport_settings(call(["apt-config", "dump"], what="reading apt's settings"))


def transport_settings(dump: str) -> list[str]:
    """Return the settings of the transport from the output of ``apt-config dump``."""
    prefixes = ("Acquire::http::", "Acquire::https::", "Acquire::Check-", "Acquire::Retries")
    return [line.rstrip(";") for line in dump.splitlines() if line.startswith(prefixes) and not line.endswith('"";')]

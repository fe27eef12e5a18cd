"""The operator's image, built from its Containerfile on a base of Debian packages."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from epd_local.builds import go, packages
from epd_local.builds.recipes import content_key
from epd_local.errors import LocalClusterError
from epd_local.image import debian_base
from epd_local.image.buildah import Buildah
from epd_local.image.pip_settings import PipSettings, pip_settings
from epd_local.locations import REPOSITORY, Locations
from epd_local.locks import locked
from epd_local.progress import say, step

OPERATOR_IMAGE = "docker.io/epd-operator/operator:dev"
CONTEXT = REPOSITORY / "operator"
# Increase it when a change of the build changes the result.
RECIPE = "1"
KEPT_ARCHIVES = 3


def operator_image(where: Locations) -> Path:
    """Return the archive of the operator's image; builds it if its sources, lock or base changed.

    The name of the archive depends on its content.

    Raises:
        LocalClusterError: a program is missing, or the build failed.
    """
    suite = debian_base.this_suite()
    key = content_key([*source_files(CONTEXT)], recipe=(RECIPE, debian_base.base_key(suite=suite), go.architecture()))
    final = where.cache / "images" / f"operator-{key}.tar"
    if final.exists():
        return final
    if lacking := packages.missing(packages.IMAGE_PACKAGES):
        raise LocalClusterError(
            f"these packages are missing: {packages.describe(lacking)}; run `python3 -m epd_local packages`"
        )
    final.parent.mkdir(parents=True, exist_ok=True)
    with locked(where.cache / "buildah.lock", waiting_for="building the operator's image"):
        if not final.exists():
            _build(where, final=final, suite=suite)
            _remove_old(final)
    return final


def source_files(context: Path) -> list[tuple[str, bytes]]:
    """Return names and contents of the files in the image."""
    sources = (path for path in (context / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    chosen = [context / "Containerfile", context / "requirements.lock", *sources]
    return [(str(path.relative_to(context)), path.read_bytes()) for path in chosen]


def _build(where: Locations, *, final: Path, suite: str) -> None:
    buildah = Buildah(where.cache / "buildah")
    base = debian_base.ensure(buildah, suite=suite, scratch=where.cache)
    partial = final.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    with (
        step("building the operator's image", usually="10 s; 1 minute after a change of its lock"),
        tempfile.TemporaryDirectory(prefix="epd-build-") as scratch,
    ):
        settings = machine_pip_settings()
        pip_conf = Path(scratch, "pip.conf")
        pip_conf.touch(mode=0o600)
        pip_conf.write_text(settings.text)
        volumes = [f"{pip_conf}:/etc/pip.conf:ro", *(f"{source}:{target}:ro" for source, target in settings.volumes)]
        buildah.build(CONTEXT, tag=OPERATOR_IMAGE, arguments={"BASE": base}, volumes=volumes)
        buildah.export(OPERATOR_IMAGE, partial)
    partial.rename(final)


def machine_pip_settings() -> PipSettings:
    """Return the pip settings of this machine, for use only during the build."""
    for command in ([sys.executable, "-m", "pip"], ["python3", "-m", "pip"], ["pip3"]):
        try:
            done = subprocess.run([*command, "config", "list"], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return pip_settings(done.stdout)
    return pip_settings("")


def _remove_old(newest: Path) -> None:
    archives = sorted(newest.parent.glob("operator-*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
    for archive in archives[KEPT_ARCHIVES:]:
        say(f"removing the old image {archive.name}")
        archive.unlink()

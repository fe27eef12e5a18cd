"""buildah with a private store, without daemon, registry or container runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from epd_local.cluster.kernel import file_system_of
from epd_local.errors import CommandFailedError
from epd_local.progress import call

# Images come only from the private store: nothing is downloaded, so there are no signatures to check.
POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}\n'


@dataclass(frozen=True)
class Buildah:
    """A store of images and the commands on it."""

    store: Path

    def has(self, image: str) -> bool:
        """Return whether the store has an image."""
        try:
            self._run("inspect", "--type", "image", image, what=f"checking for image {image}")
        except CommandFailedError:
            return False
        return True

    def import_root(self, archive: Path, *, tag: str) -> None:
        """Create an image with one layer from the archive of a root file system."""
        container = self._run("from", "scratch", what="creating an empty image").strip()
        try:
            self._run("add", "--quiet", container, str(archive), "/", what=f"adding {archive.name}")
            self._run("config", "--env", "LANG=C.UTF-8", container, what="configuring the image")
            self._run("commit", "--quiet", "--format", "docker", container, tag, what=f"writing {tag}")
        finally:
            self._run("rm", container, what="removing the working container")

    def build(self, context: Path, *, tag: str, arguments: Mapping[str, str], volumes: Sequence[str]) -> None:
        """Build the Containerfile of *context*; unchanged steps come from the store."""
        options = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        options += [word for volume in volumes for word in ("--volume", volume)]
        self._run(
            "bud", "--isolation", "chroot", "--format", "docker", "--layers", "--pull-never", *options,
            "--signature-policy", str(self._policy()), "--file", str(context / "Containerfile"), "--tag", tag,
            str(context),
            what=f"building {tag}",
        )  # fmt: skip

    def export(self, image: str, archive: Path) -> None:
        """Write an image as a ``docker save`` archive."""
        target = f"docker-archive:{archive}:{image}"
        policy = str(self._policy())
        self._run("push", "--quiet", "--signature-policy", policy, image, target, what=f"exporting {image}")

    def _policy(self) -> Path:
        path = self.store / "policy.json"
        path.write_text(POLICY)
        return path

    def _run(self, command: str, *words: str, what: str) -> str:
        self.store.mkdir(parents=True, exist_ok=True)
        # An overlay cannot be on an overlay, for example when the machine is a container: copy layers there.
        driver = "vfs" if file_system_of(self.store) == "overlay" else "overlay"
        storage = ["--root", str(self.store / "root"), "--runroot", str(self.store / "run"), "--storage-driver", driver]
        # The mounts of buildah end with their own mount namespace.
        return call(["unshare", "--mount", "--", "buildah", *storage, command, *words], what=what)

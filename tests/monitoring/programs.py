"""Programs that the tests of monitoring need, built from Go modules by ``make test-api``."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from epd_local.builds import go
from epd_local.builds.recipes import binary_named
from epd_local.locations import locations

PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"


@cache
def program(name: str) -> Path:
    """A built program.

    Raises:
        RuntimeError: it has not been built.
    """
    path = go.expected_path(binary_named(name), where=locations())
    if not path.exists():
        raise RuntimeError(f"{name} is not built: PYTHONPATH=e2e/src python -m epd_local build {name}")
    return path


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool; refusals are results, not exceptions."""
    return subprocess.run([program("promtool"), *words], check=False, capture_output=True, text=True)


def write_crds(folder: Path) -> None:
    """Write the CRDs of prometheus-operator, generated from its types with the generator that its authors use."""
    environment = go.go_environment(os.environ, go=go.find_go(locations()))
    subprocess.run(
        [program("controller-gen"), "crd", f"paths={PROMETHEUS_OPERATOR}", f"output:dir={folder}"],
        check=True,
        cwd=binary_named("controller-gen").module_folder,
        env=environment,
    )

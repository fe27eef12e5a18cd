"""The manifests of ``examples/``."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def deployment_files() -> list[Path]:
    """Files that hold EPDDeployments and nothing else."""
    return [path for path in sorted((ROOT / "examples").glob("*/*.yaml")) if _kinds(path) == {"EPDDeployment"}]


def _kinds(path: Path) -> set[str]:
    return {document.get("kind") for document in yaml.safe_load_all(path.read_text())}

"""The objects that the chart renders for values."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from monitoring.programs import program
from support.helm import CHART, KUBE_VERSION


class RefusedError(Exception):
    """Helm refused the values; the message contains its output."""


def render(values: dict[str, Any], *, namespace: str = "epd-system") -> list[dict[str, Any]]:
    """The chart's objects, without those that need a cluster.

    Raises:
        RefusedError: the values do not match the schema.
    """
    command = [program("helm"), "template", "epd-operator", CHART, "--namespace", namespace]
    command += ["--kube-version", KUBE_VERSION, "--values", "-"]
    done = subprocess.run(
        list(map(str, command)), check=False, capture_output=True, text=True, input=yaml.safe_dump(values)
    )
    if done.returncode != 0:
        raise RefusedError(done.stderr)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The documents of a kind."""
    return [document for document in documents if document["kind"] == kind]


def rule_files() -> list[Path]:
    """The chart's rule files."""
    return sorted((CHART / "rules").glob("*.yaml"))


def rules() -> list[dict[str, Any]]:
    """All rules in these files."""
    groups = [group for path in rule_files() for group in yaml.safe_load(path.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"]]

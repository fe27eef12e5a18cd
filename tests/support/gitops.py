"""Health of objects in GitOps tools: one ``gitops-check`` for many objects, with the health checks of the examples."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from support.kubectl import Kubectl
from support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "gitops"
HEALTH_LUA = EXAMPLES / "argocd" / "health.lua"
SERVING = EXAMPLES / "flux" / "serving.yaml"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of one tool for an object.

    Attributes:
        status: its name for the object's state.
        message: its message to the user.
        error: why there is no result; empty where there is one.
    """

    status: str
    message: str = ""
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """The results of the three tools for one object."""

    argocd: Verdict
    flux: Verdict
    kstatus: Verdict


def binary() -> Path:
    """The program, built from its Go modules.

    Raises:
        RuntimeError: it has not been built.
    """
    command = [sys.executable, "-m", "epd_local", "build", "--print", "gitops-check"]
    path = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1])
    if not path.exists():
        raise RuntimeError("gitops-check is not built: PYTHONPATH=e2e/src python -m epd_local build gitops-check")
    return path


def flux_expressions() -> dict[str, Any]:
    """The health expressions of the example for Flux."""
    return _expressions(SERVING.read_text())


def _expressions(kustomization: str) -> dict[str, Any]:
    (check,) = yaml.safe_load(kustomization)["spec"]["healthCheckExprs"]
    expressions: dict[str, Any] = check
    return expressions


def flux_expressions_of_available(folder: Path) -> dict[str, Any]:
    """The health expressions of the example for Flux with the patch ``available.yaml``, which *folder* is built in."""
    folder.mkdir()
    for path in (SERVING, SERVING.with_name("available.yaml")):
        (folder / path.name).write_text(path.read_text())
    patch = {"path": "available.yaml", "target": {"kind": "Kustomization", "name": "serving"}}
    document = {"resources": [SERVING.name], "patches": [patch]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
    return _expressions(Kubectl().get("kustomize", folder))


class Checker:
    """A running ``gitops-check``; a context manager."""

    def __init__(self, *arguments: str | Path) -> None:
        self._process = subprocess.Popen(
            [binary(), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=PATIENCE_SECONDS)

    def health(self, thing: dict[str, Any]) -> Verdicts:
        """The results of the tools for an object."""
        result = self._ask(thing)
        return Verdicts(**{tool: Verdict(**result[tool]) for tool in ("argocd", "flux", "kstatus")})

    def decode(self, thing: dict[str, Any]) -> Verdict:
        """Whether Flux's own types have all fields of an object."""
        return Verdict(**self._ask(thing))

    def _ask(self, thing: dict[str, Any]) -> dict[str, Any]:
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None
        assert answers is not None
        pipe.write(json.dumps(thing) + "\n")
        pipe.flush()
        line = answers.readline()
        assert line, f"gitops-check ended with {self._process.wait(timeout=PATIENCE_SECONDS)}"
        answer: dict[str, Any] = json.loads(line)
        return answer


def health_checker(folder: Path, *, lua: Path = HEALTH_LUA, cel: dict[str, Any] | None = None) -> Checker:
    """A checker with a script for Argo CD and expressions for Flux, by default of the examples; writes to *folder*."""
    expressions = folder / "expressions.json"
    expressions.write_text(json.dumps(cel or flux_expressions()))
    return Checker("health", "--lua", lua, "--cel", expressions)


def checker_of_available(folder: Path) -> Checker:
    """A checker with the variants of the examples for which it is enough that requests are answered."""
    before, after = "local available_is_enough = false", "local available_is_enough = true"
    script = HEALTH_LUA.read_text()
    assert script.count(before) == 1
    lua = folder / "health.lua"
    lua.write_text(script.replace(before, after))
    return health_checker(folder, lua=lua, cel=flux_expressions_of_available(folder / "serving"))

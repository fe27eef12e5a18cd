"""A real API server, and programs that run the health checks of GitOps tools."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fixtures import api_server, bare_api_server, controllers, crd_answers, world
from support.gitops import Checker, checker_of_available, health_checker

__all__ = ["api_server", "bare_api_server", "controllers", "crd_answers", "world"]


@pytest.fixture(scope="session")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checker]:
    """Argo CD, Flux and kstatus with the health checks of the examples."""
    with health_checker(tmp_path_factory.mktemp("checker")) as started:
        yield started


@pytest.fixture(scope="session")
def checker_if_available(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checker]:
    """The same, but with the variants for which it is enough that requests are answered."""
    with checker_of_available(tmp_path_factory.mktemp("available")) as started:
        yield started


@pytest.fixture(scope="session")
def flux_types() -> Iterator[Checker]:
    """A checker with Flux's own types."""
    with Checker("decode") as started:
        yield started

"""pytest fixtures with a real API server, for the ``conftest.py`` of every folder that needs one.

A ``conftest.py`` imports by name what its tests use, and pytest starts only what the tests use.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.apiserver import ApiServer
from support.client import Answer
from support.operated import World, new_world

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def bare_api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The API server as it starts: no CRDs."""
    with ApiServer(folder=tmp_path_factory.mktemp("apiserver")) as server:
        yield server


@pytest.fixture(scope="session")
def crd_answers(bare_api_server: ApiServer) -> list[Answer]:
    """The API server's answer to each of the project's CRDs."""
    return bare_api_server.install_crds(ROOT / "crds")


@pytest.fixture(scope="session")
def api_server(bare_api_server: ApiServer, crd_answers: list[Answer]) -> ApiServer:
    """The API server with the project's CRDs."""
    return bare_api_server


@pytest.fixture(scope="session")
def controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server with the real controllers of Deployments, ReplicaSets, quotas and garbage collection."""
    with ApiServer(folder=tmp_path_factory.mktemp("controllers"), with_controllers=True) as started:
        started.install_crds(ROOT / "crds")
        yield started


@pytest.fixture
async def world(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """Without controllers: only the operator and the test write."""
    async with new_world(api_server, monkeypatch) as made:
        yield made


@pytest.fixture
async def live_world(controllers: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """With the real controllers of Deployments, ReplicaSets, quotas and garbage collection."""
    async with new_world(controllers, monkeypatch) as made:
        yield made

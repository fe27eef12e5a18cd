"""One real API server for the session, with the project's CRDs installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.apiserver import ApiServer
from support.client import Answer

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def bare_api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The API server as it starts: no CRDs."""
    with ApiServer(folder=tmp_path_factory.mktemp("apiserver")) as server:
        yield server


@pytest.fixture(scope="session")
def crd_answers(bare_api_server: ApiServer) -> list[Answer]:
    """What the API server said to each of the project's CRDs."""
    return bare_api_server.install_crds(ROOT / "crds")


@pytest.fixture(scope="session")
def api_server(bare_api_server: ApiServer, crd_answers: list[Answer]) -> ApiServer:
    """The API server with the project's CRDs."""
    return bare_api_server

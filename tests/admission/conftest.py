"""A real API server with the policies that the chart renders by default."""

from __future__ import annotations

import pytest

from support.admission import Object, collection, install, policies
from support.admission_cases import DENIALS, old_object
from support.apiserver import ApiServer
from support.fixtures import controllers
from support.helm import Helm, binary

__all__ = ["controllers"]


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm 3, without a cluster."""
    return Helm(program=binary("helm"), major=3, home=tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def rendered(helm: Helm) -> list[Object]:
    """Policies and bindings with the chart's default values."""
    return policies(helm)


@pytest.fixture(scope="session")
def policy_server(controllers: ApiServer, rendered: list[Object]) -> ApiServer:
    """The server with the policies, and with objects in namespace ``old`` that are older than the policies."""
    assert controllers.client.create("/api/v1/namespaces", {"metadata": {"name": "old"}}).ok
    for case in DENIALS:
        answer = controllers.client.create(collection("old"), old_object(case))
        assert answer.ok, answer.message
    install(controllers, rendered)
    return controllers

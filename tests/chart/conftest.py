"""Helm 3 and Helm 4, and a real API server that has no objects of the chart when a test starts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.apiserver import ApiServer
from support.charts import Site, remove_cluster_scoped
from support.fixtures import bare_api_server
from support.helm import Helm, binary

__all__ = ["bare_api_server"]


@pytest.fixture(scope="session", params=["helm", "helm4"])
def offline_helm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm 3 and Helm 4, without a cluster."""
    return Helm(
        program=binary(request.param),
        major=4 if request.param == "helm4" else 3,
        home=tmp_path_factory.mktemp(request.param),
    )


@pytest.fixture
def site(bare_api_server: ApiServer) -> Iterator[Site]:
    """Separate namespaces; cluster-scoped objects of the chart are deleted afterwards."""
    unique = uuid.uuid4().hex[:6]
    site = Site(server=bare_api_server, system=f"system-{unique}", teams=(f"team-a-{unique}", f"team-b-{unique}"))
    for name in (site.system, *site.teams):
        assert site.client.create("/api/v1/namespaces", {"metadata": {"name": name}}).ok
    yield site
    remove_cluster_scoped(bare_api_server)


@pytest.fixture
def helm(offline_helm: Helm, site: Site) -> Helm:
    """Helm with the rights of a cluster administrator."""
    return replace(offline_helm, kubeconfig=site.server.kubeconfig)


@pytest.fixture
def both(site: Site, tmp_path: Path) -> tuple[Helm, Helm]:
    """Helm 3 and Helm 4 with the same cluster."""
    three = Helm(program=binary("helm"), major=3, home=tmp_path / "3", kubeconfig=site.server.kubeconfig)
    return three, replace(three, program=binary("helm4"), major=4, home=tmp_path / "4")

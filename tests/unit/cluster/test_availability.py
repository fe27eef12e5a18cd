"""Waiting for kinds that the API server does not serve yet, or that the operator is not allowed to list."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from epd_operator.cluster.availability import (
    MAX_CONCURRENT_CHECKS,
    OPTIONAL_KIND_RETRY_SECONDS,
    RETRY_SECONDS,
    unlistable_kinds,
    wait_for_listable_kind,
    wait_until_listable,
)
from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, NotFoundError, RefusedError
from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT, POD, STAGE_SCALE, Kind
from support.virtual import run_virtually


class FakeCluster(Cluster):
    """Serves the given kinds, and refuses the paths in ``failures``."""

    def __init__(self, *served: Kind) -> None:
        self.served = list(served)
        self.failures: dict[str, ClusterError] = {}
        self.paths: list[str] = []
        self.active = 0
        self.most_active = 0

    async def read(self, kind: Kind, *, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        self.paths.append(path)
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        await asyncio.sleep(0.001)
        self.active -= 1
        if path in self.failures:
            raise self.failures[path]
        group, _, version = kind.api_version.partition("/")
        served = [found for found in self.served if found.api_version == kind.api_version]
        if path == f"/apis/{group}" and served:
            return {"versions": [{"version": version}]}
        if path == f"/apis/{kind.api_version}" and served:
            return {"resources": [{"name": found.plural} for found in served]}
        if query == {"limit": "1"} and kind in served:
            return {"items": []}
        raise NotFoundError("not found", request=f"GET {path}", status=404)

    def refuse(self, kind: Kind, namespace: str | None) -> None:
        path = kind.path(namespace=namespace)
        self.failures[path] = RefusedError("forbidden", request=f"LIST {path}", status=403)


def wait(cluster: Cluster, *namespaces: str, kinds: tuple[Kind, ...] = (EPD_DEPLOYMENT, POD)) -> list[str]:
    async def within_a_minute() -> list[str]:
        return await asyncio.wait_for(wait_until_listable(cluster, kinds=kinds, namespaces=namespaces), timeout=60)

    return run_virtually(within_a_minute())


def unlistable(cluster: Cluster, *kinds: Kind, namespaces: tuple[str, ...] = ()) -> list[Kind]:
    return run_virtually(unlistable_kinds(cluster, kinds=kinds, namespaces=namespaces))


def test_kinds_that_are_served_are_listable_in_all_namespaces() -> None:
    cluster = FakeCluster(EPD_DEPLOYMENT, POD)
    assert wait(cluster) == []
    assert "/api/v1/pods" in cluster.paths


def test_namespaces_in_which_all_kinds_can_be_listed_are_returned() -> None:
    cluster = FakeCluster(EPD_DEPLOYMENT, POD)
    cluster.refuse(POD, "closed")
    assert wait(cluster, "open", "closed", "other") == ["open", "other"]


@pytest.mark.parametrize("namespaces", [(), ("a",), ("a", "b")])
def test_a_kind_that_is_installed_later_is_waited_for(namespaces: tuple[str, ...]) -> None:
    cluster = FakeCluster(POD)

    async def install_later() -> tuple[list[str], float]:
        waiting = asyncio.create_task(wait_until_listable(cluster, kinds=(EPD_DEPLOYMENT, POD), namespaces=namespaces))
        await asyncio.sleep(3 * RETRY_SECONDS)
        assert not waiting.done()
        cluster.served.append(EPD_DEPLOYMENT)
        installed = asyncio.get_running_loop().time()
        return await waiting, asyncio.get_running_loop().time() - installed

    found, seconds = run_virtually(install_later())
    assert found == list(namespaces)
    assert seconds <= RETRY_SECONDS + 0.1


def test_a_problem_is_logged_once_while_it_does_not_change(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TimeoutError):
        wait(FakeCluster(POD))
    (message,) = [record.getMessage() for record in caplog.records]
    assert "the API server does not serve epddeployments of" in message


def test_a_missing_right_is_reported_with_the_message_of_the_api_server(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(EPD_DEPLOYMENT, POD)
    cluster.refuse(POD, "closed")
    with pytest.raises(TimeoutError):
        wait(cluster, "closed")
    assert "forbidden" in caplog.text


@pytest.mark.parametrize("answer", [{}, {"versions": []}, {"versions": [{}]}, {"versions": [{"version": "v9"}]}])
def test_a_kind_that_discovery_does_not_list_is_unlistable(answer: dict[str, Any]) -> None:
    class Discovery(FakeCluster):
        async def read(self, kind: Kind, *, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
            return answer if path == "/apis/apps" else await super().read(kind, path=path, query=query)

    assert unlistable(Discovery(DEPLOYMENT, POD), DEPLOYMENT, POD) == [DEPLOYMENT]


def test_a_kind_that_cannot_be_listed_in_one_namespace_is_unlistable() -> None:
    cluster = FakeCluster(STAGE_SCALE, POD)
    cluster.refuse(STAGE_SCALE, "closed")
    assert unlistable(cluster, STAGE_SCALE, POD, namespaces=("open", "closed")) == [STAGE_SCALE]
    assert unlistable(cluster, STAGE_SCALE, POD, namespaces=("open",)) == []


def test_the_first_optional_kind_that_becomes_listable_is_returned() -> None:
    cluster = FakeCluster(POD)

    async def install_later() -> Kind:
        waiting = asyncio.create_task(wait_for_listable_kind(cluster, kinds=(STAGE_SCALE, DEPLOYMENT), namespaces=()))
        await asyncio.sleep(2 * OPTIONAL_KIND_RETRY_SECONDS)
        assert not waiting.done()
        cluster.served.append(DEPLOYMENT)
        return await waiting

    assert run_virtually(install_later()) == DEPLOYMENT


def test_namespaces_are_checked_concurrently_up_to_the_limit() -> None:
    cluster = FakeCluster(EPD_DEPLOYMENT, POD)
    namespaces = [f"n{number}" for number in range(200)]
    assert wait(cluster, *namespaces) == namespaces
    assert cluster.most_active == MAX_CONCURRENT_CHECKS

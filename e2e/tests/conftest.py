"""The local cluster with the operator in it, and one deployment at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stories import Serve, is_ready, remove

from epd_local.cluster import operations, processes
from epd_local.demo.__main__ import MODEL, serve
from epd_local.demo.chat import Endpoint
from epd_local.demo.deployment import Deployment, example
from epd_local.demo.installation import Installation, install
from epd_local.locations import locations

LOCAL_PORT = 18000


TEST_SECONDS = 3600
"""Time limit of a test and its fixtures. Every wait has a shorter limit of its own."""


LAST = ("test_lifecycle.py", "test_rights.py")
"""The first uses the deployment that test_topologies.py starts last; the second checks rights that all others use."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files, and let a test wait for a busy machine."""
    for item in items:
        item.add_marker(pytest.mark.timeout(TEST_SECONDS))
    items.sort(key=lambda item: LAST.index(item.path.name) if item.path.name in LAST else -1)


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    """A cluster with the operator. A cluster that was running before the tests keeps running."""
    where = locations()
    was_up = processes.control_plane_init(where.state) is not None
    yield install(where)
    if not was_up and not os.environ.get("EPD_KEEP"):
        operations.down(where)


@pytest.fixture(scope="session")
def endpoint() -> Endpoint:
    """The endpoint of deployments on this machine."""
    return Endpoint(url=f"http://localhost:{LOCAL_PORT}", model=MODEL)


@pytest.fixture(scope="session")
def serve_manifest(installation: Installation) -> Serve:
    """Serve the deployment of a manifest, after removing the previous one; one that is still served is kept."""
    served: list[Path] = []

    def begin(manifest: Path) -> Deployment:
        deployment = Deployment(kubectl=installation.kubectl)
        if served[-1:] != [manifest] or not is_ready(deployment):
            remove(deployment)
            serve(installation, manifest=manifest, local_port=LOCAL_PORT)
            served.append(manifest)
        return deployment

    return begin


@pytest.fixture(scope="session")
def start(serve_manifest: Serve) -> Callable[[str], Deployment]:
    """Serve the example of a topology."""
    return lambda topology: serve_manifest(example(topology))


@pytest.fixture
def other(installation: Installation) -> Iterator[Deployment]:
    """A further deployment without running workers, removed afterwards."""
    extra = Deployment(kubectl=installation.kubectl, name="other")
    yield extra
    remove(extra)

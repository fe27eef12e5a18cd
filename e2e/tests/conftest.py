"""The local cluster with the operator in it, and one deployment at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from stories import remove

from epd_local.cluster import operations, processes
from epd_local.demo.__main__ import MODEL, serve
from epd_local.demo.chat import Endpoint
from epd_local.demo.deployment import Deployment
from epd_local.demo.installation import Installation, install
from epd_local.locations import locations

LOCAL_PORT = 18000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Check the rights after all other tests have used them."""
    items.sort(key=lambda item: item.path.name == "test_rights.py")


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
def start(installation: Installation) -> Callable[[str], Deployment]:
    """Start the example of a topology, after removing the previous one."""

    def begin(topology: str) -> Deployment:
        remove(Deployment(kubectl=installation.kubectl))
        return serve(installation, topology=topology, local_port=LOCAL_PORT)

    return begin


@pytest.fixture
def other(installation: Installation) -> Iterator[Deployment]:
    """A further deployment without running workers, removed afterwards."""
    extra = Deployment(kubectl=installation.kubectl, name="other")
    yield extra
    remove(extra)

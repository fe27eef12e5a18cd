"""A change of the topology while clients ask: no request fails, in either direction."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stories import PATIENCE, Clients, eventually, is_ready

from epd_local import pictures
from epd_local.demo.chat import Endpoint
from epd_local.demo.deployment import Deployment, example

PICTURE = pictures.data_url(pictures.Subject(colour="blue", shape="circle", seed=pictures.UNSEEN + 7))


@pytest.fixture(scope="module")
def deployment(start: Callable[[str], Deployment]) -> Deployment:
    """A ready deployment in topology Disaggregated."""
    return start("disaggregated")


def serves(deployment: Deployment, topology: str) -> bool:
    """Whether only a revision with this topology is left, and everything is ready."""
    found = deployment.get() or {}
    status = found.get("status", {})
    revisions = [(r["state"], r.get("topology")) for r in status.get("revisions", ())]
    current = status.get("observedGeneration") == found.get("metadata", {}).get("generation")
    return current and is_ready(deployment) and revisions == [("Serving", topology)]


@pytest.mark.parametrize("topology", ["aggregated", "disaggregated"])
def test_a_switch_of_the_topology_loses_no_request_with_text_or_picture(
    deployment: Deployment, endpoint: Endpoint, topology: str
) -> None:
    texts = Clients(endpoint, count=1, timeout=PATIENCE, pause=1.0)
    images = Clients(endpoint, count=1, image=PICTURE, timeout=PATIENCE, pause=1.0)
    with texts, images:
        eventually(lambda: texts.answered and images.answered, what=lambda: (texts.state(), images.state()))
        deployment.kubectl.run("replace", "--namespace", deployment.namespace, "-f", str(example(topology)))
        eventually(lambda: serves(deployment, topology.capitalize()), what=deployment.get)
        after = texts.answered, images.answered
        eventually(
            lambda: texts.answered > after[0] and images.answered > after[1],
            what=lambda: (texts.state(), images.state()),
        )
    assert texts.errors == []
    assert images.errors == []

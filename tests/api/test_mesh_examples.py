"""A real API server accepts the examples for a service mesh, but those of Istio's kinds, whose CRDs are not here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.apiserver import ApiServer
from support.operated import PRIMARIES
from support.specs import TOPOLOGIES, raw_spec

MESH = Path(__file__).parents[2] / "examples" / "mesh"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((MESH / name).read_text()))


def test_the_network_policies_are_accepted(api_server: ApiServer) -> None:
    for document in documents("ambient-network-policies.yaml"):
        document["metadata"]["namespace"] = "default"
        answer = api_server.client.create(POLICIES, document, dry_run=True)
        assert (answer.message, answer.warnings) == ("", ())


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_an_object_with_the_fields_for_sidecars_is_accepted(api_server: ApiServer, topology: str) -> None:
    (fields,) = documents("sidecar.yaml")
    body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "mesh"}}
    body["spec"] = {**raw_spec(topology), **fields}
    answer = api_server.client.create(PRIMARIES.format("default"), body, dry_run=True)
    assert (answer.message, answer.warnings) == ("", ())

"""Objects that were stored before the CRD had its rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from epd_operator.api.markers import VALIDATIONS
from epd_operator.api.v1alpha1.epddeployment import GROUP, PLURAL, VERSION
from support.apiserver import CRD_PATH, ApiServer
from support.bad_objects import deployment

COLLECTION = f"/apis/{GROUP}/{VERSION}/namespaces/default/{PLURAL}"
REFUSED = deployment(changes={"runtime.image": "Refused:1"})


@contextmanager
def without_rules(server: ApiServer) -> Iterator[None]:
    """The CRD of EPDDeployments without CEL rules, so that objects can be stored which the rules refuse."""
    path = f"{CRD_PATH}/{PLURAL}.{GROUP}"
    served = server.client.get(path).body["spec"]
    _replace(server, path, _stripped(served))
    server.wait_for("the CRD without rules", lambda: _accepts(server))
    try:
        yield
    finally:
        _replace(server, path, served)
        server.wait_for("the CRD with its rules", lambda: not _accepts(server))


def _replace(server: ApiServer, path: str, spec: dict[str, Any]) -> None:
    answer = server.client.request("PUT", path, {**server.client.get(path).body, "spec": spec})
    assert answer.ok, answer.message


def _accepts(server: ApiServer) -> bool:
    return server.client.create(COLLECTION, REFUSED, dry_run=True).ok


def _stripped(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _stripped(value) for key, value in schema.items() if key != VALIDATIONS}
    return [_stripped(item) for item in schema] if isinstance(schema, list) else schema

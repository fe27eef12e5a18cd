"""An API server in memory, for reconciles without a real one: stores applied objects and raises configured errors."""

# ruff: noqa: ARG002 - one namespace, one field manager

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError
from epd_operator.objects.kinds import EPD_DEPLOYMENT, Kind


class MemoryCluster(Cluster):
    """Objects by kind and name, of one namespace.

    Attributes:
        objects: the stored objects.
        failures: errors to raise, by verb and kind.
        writes: verbs and kinds of the writes, in order, refused ones included.
        queries: field selectors and limits of reads of single pages, in order.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.failures: dict[tuple[str, str], ClusterError] = {}
        self.writes: list[str] = []
        self.queries: list[Mapping[str, str]] = []

    def create(self, spec: object, *, name: str = "qwen", status: object = None) -> None:
        """Store an EPDDeployment, as a user (or an earlier version of the API) wrote it."""
        body: dict[str, Any] = {"metadata": {"name": name, "namespace": "serving", "uid": "u-1", "generation": 1}}
        body |= {field: value for field, value in (("spec", spec), ("status", status)) if value is not None}
        self.objects[EPD_DEPLOYMENT.kind, name] = body

    def status(self, name: str = "qwen") -> dict[str, Any]:
        """Status of an EPDDeployment."""
        found: dict[str, Any] = self.objects[EPD_DEPLOYMENT.kind, name].get("status", {})
        return found

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition of the EPDDeployment ``qwen``."""
        return next(c for c in self.status()["conditions"] if c["type"] == kind)

    async def get(self, kind: Kind, *, namespace: str, name: str) -> dict[str, Any] | None:
        self._fail("GET", kind)
        return copy.deepcopy(self.objects.get((kind.kind, name)))

    async def list(self, kind: Kind, *, namespace: str | None, selector: str = "") -> list[dict[str, Any]]:
        self._fail("LIST", kind)
        return [
            copy.deepcopy(found) | {"kind": kind.kind} for key, found in self.objects.items() if key[0] == kind.kind
        ]

    async def list_page(self, kind: Kind, *, namespace: str | None, query: Mapping[str, str]) -> dict[str, Any]:
        self._fail("LIST", kind)
        self.queries.append(query)
        field, _, value = query["fieldSelector"].partition("=")
        outer, inner = field.split(".")
        found = [o for (name, _), o in self.objects.items() if name == kind.kind and o[outer][inner] == value]
        return {"items": copy.deepcopy(found[: int(query["limit"])])}

    async def apply(
        self,
        kind: Kind,
        *,
        body: Mapping[str, Any],
        field_manager: str,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        if dry_run:
            return dict(body)
        self.writes.append(f"APPLY {kind.kind}")
        self._fail("APPLY", kind)
        key = (kind.kind, body["metadata"]["name"])
        stored = copy.deepcopy(dict(body))
        if subresource is not None:
            stored = self.objects[key] | {"status": stored["status"]}
        stored["metadata"] = {"uid": f"uid-{key}", "generation": 1, **stored["metadata"]}
        self.objects[key] = stored
        return stored

    async def delete(self, kind: Kind, *, namespace: str, name: str, uid: str) -> None:
        self.writes.append(f"DELETE {kind.kind}")
        self._fail("DELETE", kind)
        del self.objects[kind.kind, name]

    def _fail(self, verb: str, kind: Kind) -> None:
        if (verb, kind.kind) in self.failures:
            raise self.failures[verb, kind.kind]

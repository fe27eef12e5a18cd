"""Paths of the objects of a kind, from the discovery of the API server."""

from __future__ import annotations

from typing import Any

from support.client import Client


def collection(client: Client, document: dict[str, Any]) -> str:
    """The path to create an object at."""
    version = document["apiVersion"]
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    listed = client.get(prefix)
    assert listed.ok, f"{version} is not served"
    (kind,) = [r for r in listed.body["resources"] if r["kind"] == document["kind"] and "/" not in r["name"]]
    if not kind["namespaced"]:
        return f"{prefix}/{kind['name']}"
    return f"{prefix}/namespaces/{document['metadata']['namespace']}/{kind['name']}"

"""Reads the nodes and RuntimeClasses of the cluster. Only an operator with the right for it does this."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from epd_operator.api.untyped import items, mapping
from epd_operator.cluster.client import Cluster
from epd_operator.objects.kinds import NODE, RUNTIME_CLASS, Kind
from epd_operator.objects.nodes import Nodes, node_of, runtime_class_of

PAGE_SIZE = 100
"""A Node object has 10 to 50 kB, most of it a list of images, so a page needs at most 5 MB while it is decoded."""


async def read_nodes(cluster: Cluster) -> Nodes:
    """All nodes and RuntimeClasses.

    Raises:
        ClusterError: they could not be read.
    """
    nodes = [node_of(raw) async for raw in _pages(cluster, NODE)]
    classes = {
        str(mapping(raw.get("metadata")).get("name")): runtime_class_of(raw)
        async for raw in _pages(cluster, RUNTIME_CLASS)
    }
    return Nodes(nodes=tuple(sorted(nodes, key=lambda node: node.name)), runtime_classes=classes)


async def _pages(cluster: Cluster, kind: Kind) -> AsyncIterator[Mapping[str, Any]]:
    query = {"limit": str(PAGE_SIZE)}
    while True:
        page = await cluster.list_page(kind, namespace=None, query=query)
        for raw in items(page.get("items")):
            yield raw
        following = mapping(page.get("metadata")).get("continue")
        if not following:
            return
        query["continue"] = str(following)

"""Whether the API server serves a kind, and lets us read it: kopf never asks a second time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, NotFoundError
from epd_operator.objects.kinds import Kind

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0
SLOW_PAUSE_SECONDS = 10.0
"""Where most of the work goes on meanwhile."""
LOOKS_AT_ONCE = 16
"""Namespaces, of which there may be hundreds."""


async def until_listable(cluster: Cluster, *, kinds: Sequence[Kind], namespaces: Sequence[str]) -> list[str]:
    """Return when all kinds can be listed. CRDs and rights may come later.

    Args:
        cluster: where.
        kinds: what will be watched.
        namespaces: where it will be watched; an empty list means all.

    Returns:
        The namespaces in which everything can be listed: one at least, so that one that was deleted, or that nobody
        gave the rights for, does not keep the others from being watched.
    """
    told: list[str] = []
    while True:
        found = await _obstacles(cluster, kinds=kinds, namespaces=namespaces)
        obstacles = [obstacle for obstacle in found.values() if obstacle]
        if obstacles != told:
            for obstacle in obstacles:
                logger.warning("waiting until it can be watched: %s", obstacle)
            told = obstacles
        if len(obstacles) < len(found):
            return [namespace for namespace, obstacle in found.items() if namespace and not obstacle]
        await asyncio.sleep(PAUSE_SECONDS)


async def missing_kinds(cluster: Cluster, *, kinds: Sequence[Kind], namespaces: Sequence[str]) -> list[Kind]:
    """Those of the kinds that cannot be listed in one of the namespaces at least."""
    missing = []
    for kind in kinds:
        obstacles = list(filter(None, (await _obstacles(cluster, kinds=[kind], namespaces=namespaces)).values()))
        if obstacles:
            logger.warning("goes on without it: %s", obstacles[0])
            missing.append(kind)
    return missing


async def until_kind_listable(cluster: Cluster, *, kinds: Sequence[Kind], namespaces: Sequence[str]) -> Kind:
    """Return the first of the kinds that can be listed in all namespaces."""
    while True:
        for kind in kinds:
            if not any((await _obstacles(cluster, kinds=[kind], namespaces=namespaces)).values()):
                return kind
        await asyncio.sleep(SLOW_PAUSE_SECONDS)


async def _obstacles(cluster: Cluster, *, kinds: Sequence[Kind], namespaces: Sequence[str]) -> dict[str | None, str]:
    """What keeps the kinds from being listed, by namespace (None is all of them); empty where nothing does."""
    places: tuple[str | None, ...] = tuple(namespaces) or (None,)
    hidden = await _obstacle(kinds, partial(_is_discovered, cluster))
    if hidden:
        return dict.fromkeys(places, hidden)
    limit = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def look(place: str | None) -> str:
        async with limit:
            return await _obstacle(kinds, partial(_is_listed, cluster, place))

    return dict(zip(places, await asyncio.gather(*map(look, places)), strict=True))


async def _obstacle(kinds: Sequence[Kind], look: Callable[[Kind], Awaitable[bool]]) -> str:
    """What the first look that finds nothing has to say; empty where all find something."""
    for kind in kinds:
        try:
            if await look(kind):
                continue
        except NotFoundError:
            pass
        except ClusterError as error:
            return str(error)
        return f"{kind.plural} of {kind.api_version} are not served"
    return ""


async def _is_discovered(cluster: Cluster, kind: Kind) -> bool:
    """Discovery lags behind the kinds that are served, and kopf believes the former."""
    group, _, version = kind.api_version.rpartition("/")
    if not group:
        return True
    versions = (await cluster.read(kind, path=f"/apis/{group}")).get("versions", ())
    if version not in [found.get("version") for found in versions]:
        return False
    resources = (await cluster.read(kind, path=f"/apis/{kind.api_version}")).get("resources", ())
    return kind.plural in [found.get("name") for found in resources]


async def _is_listed(cluster: Cluster, namespace: str | None, kind: Kind) -> bool:
    await cluster.read(kind, path=kind.path(namespace=namespace), query={"limit": "1"})
    return True

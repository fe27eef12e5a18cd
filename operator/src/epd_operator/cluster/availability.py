"""Checks which kinds the API server serves and allows the operator to list.

kopf checks this only once, at its start. So the operator waits here before it starts kopf, and checks again later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, NotFoundError
from epd_operator.objects.kinds import Kind

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
OPTIONAL_KIND_RETRY_SECONDS = 10.0
"""Longer, because the operator works without optional kinds."""
MAX_CONCURRENT_CHECKS = 16
"""There may be hundreds of namespaces to check."""


async def wait_until_listable(cluster: Cluster, *, kinds: Sequence[Kind], namespaces: Sequence[str]) -> list[str]:
    """Wait until all kinds can be listed. CRDs and RBAC rules may be installed after the operator.

    Args:
        cluster: the cluster to check.
        kinds: the kinds to watch later.
        namespaces: the namespaces to watch later; an empty list means all namespaces.

    Returns:
        The namespaces in which all kinds can be listed; returns when there is at least one. Namespaces that were
        deleted or that the operator may not read are left out. The list is empty if `namespaces` is empty.
    """
    reported: list[str] = []
    while True:
        problems_by_namespace = await _find_problems(cluster, kinds=kinds, namespaces=namespaces)
        problems = [problem for problem in problems_by_namespace.values() if problem]
        if problems != reported:
            for problem in problems:
                logger.warning("cannot watch yet, checking again every %g s: %s", RETRY_SECONDS, problem)
            reported = problems
        if len(problems) < len(problems_by_namespace):
            return [namespace for namespace, problem in problems_by_namespace.items() if namespace and not problem]
        await asyncio.sleep(RETRY_SECONDS)


async def unlistable_kinds(cluster: Cluster, *, kinds: Sequence[Kind], namespaces: Sequence[str]) -> list[Kind]:
    """The kinds that cannot be listed in at least one of the namespaces."""
    missing = []
    for kind in kinds:
        problems = (await _find_problems(cluster, kinds=[kind], namespaces=namespaces)).values()
        problem = next(filter(None, problems), None)
        if problem is not None:
            logger.warning("%s are not watched: %s", kind.plural, problem)
            missing.append(kind)
    return missing


async def wait_for_listable_kind(cluster: Cluster, *, kinds: Sequence[Kind], namespaces: Sequence[str]) -> Kind:
    """Wait until one of the kinds can be listed in all namespaces, and return it."""
    while True:
        for kind in kinds:
            if not any((await _find_problems(cluster, kinds=[kind], namespaces=namespaces)).values()):
                return kind
        await asyncio.sleep(OPTIONAL_KIND_RETRY_SECONDS)


async def _find_problems(
    cluster: Cluster, *, kinds: Sequence[Kind], namespaces: Sequence[str]
) -> dict[str | None, str]:
    """Why the kinds cannot be listed, by namespace; empty text if they can. The key None means all namespaces."""
    scopes: tuple[str | None, ...] = tuple(namespaces) or (None,)
    problem = await _find_problem(kinds, partial(_is_discovered, cluster))
    if problem:
        return dict.fromkeys(scopes, problem)
    limit = asyncio.Semaphore(MAX_CONCURRENT_CHECKS)

    async def check(namespace: str | None) -> str:
        async with limit:
            return await _find_problem(kinds, partial(_can_list, cluster, namespace))

    return dict(zip(scopes, await asyncio.gather(*map(check, scopes)), strict=True))


async def _find_problem(kinds: Sequence[Kind], check: Callable[[Kind], Awaitable[bool]]) -> str:
    """Message about the first kind for which the check fails; empty if it succeeds for all."""
    for kind in kinds:
        try:
            if await check(kind):
                continue
        except NotFoundError:
            pass
        except ClusterError as error:
            return str(error)
        return f"the API server does not serve {kind.plural} of {kind.api_version}"
    return ""


async def _is_discovered(cluster: Cluster, kind: Kind) -> bool:
    """Whether discovery lists the kind. kopf relies on discovery, which may lag behind the served kinds."""
    group, _, version = kind.api_version.rpartition("/")
    if not group:
        return True
    versions = (await cluster.read(kind, path=f"/apis/{group}")).get("versions", ())
    if version not in [found.get("version") for found in versions]:
        return False
    resources = (await cluster.read(kind, path=f"/apis/{kind.api_version}")).get("resources", ())
    return kind.plural in [found.get("name") for found in resources]


async def _can_list(cluster: Cluster, namespace: str | None, kind: Kind) -> bool:
    await cluster.read(kind, path=kind.path(namespace=namespace), query={"limit": "1"})
    return True

"""Finds out whether the CRDs are older than this operator, and reports it in the log, a metric and every status.

An upgrade of the operator can leave the CRDs as they are, for example if `kubectl` applied them. Then the API server
drops or refuses fields that this operator knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, NotFoundError, RefusedError
from epd_operator.cluster.served_schema import missing_in_crds
from epd_operator.objects.identity import Key
from epd_operator.reconcile.queue import WorkQueue

logger = logging.getLogger(__name__)

CHECK_SECONDS = 300.0
UNKNOWN_SECONDS = 30.0
"""Seconds until the next check after one without a result: the API server publishes the schema of a new CRD late."""
MAX_NAMED = 5
"""Maximum number of fields that the message names."""


class CrdCheck:
    """The last result. Without a result, for example if the schemas cannot be read, nothing is reported."""

    def __init__(self, cluster: Cluster, *, on_result: Callable[[Mapping[str, int]], object]) -> None:
        self._cluster = cluster
        self._on_result = on_result
        self._problem = ""
        self._is_known = False

    def problem(self) -> str:
        """Why the CRDs are too old; empty if they are not, or if it is not known."""
        return self._problem

    async def run(
        self,
        *,
        queue: WorkQueue[Key],
        known: Callable[[], Collection[Key]],
        random: Callable[[], float],
    ) -> None:
        """Check periodically, until cancelled. If the result changes, add all known objects to the queue."""
        while True:
            if await self.check():
                for key in known():
                    queue.add(key)
            interval = CHECK_SECONDS if self._is_known else UNKNOWN_SECONDS
            await asyncio.sleep(interval * (0.75 + random() / 2))

    async def check(self) -> bool:
        """Check once; returns whether the result has changed."""
        try:
            missing = await missing_in_crds(self._cluster)
        except (NotFoundError, RefusedError) as error:
            logger.debug("whether the CRDs are current is not known: %s", error)
            missing = {}
        except ClusterError as error:
            logger.debug("whether the CRDs are still current is not known: %s", error)
            return False
        self._is_known = bool(missing)
        self._on_result({name: len(fields) for name, fields in missing.items()})
        before, self._problem = self._problem, _describe(missing)
        if self._problem == before:
            return False
        if self._problem:
            logger.warning("%s", self._problem)
        else:
            logger.info("the CRDs are no longer reported as older than the operator")
        return True


def _describe(missing: Mapping[str, Collection[str]]) -> str:
    outdated = {name: fields for name, fields in missing.items() if fields}
    if not outdated:
        return ""
    lacks = "; ".join(f"CRD {name} lacks {_listed(fields)}" for name, fields in sorted(outdated.items()))
    return (
        f"the CRDs are older than the operator: {lacks}. The API server drops or refuses what they lack. Upgrade the "
        "CRDs, by the chart value crds.install=Always or by kubectl apply: see docs/upgrade.md"
    )


def _listed(fields: Collection[str]) -> str:
    named = sorted(fields)[:MAX_NAMED]
    more = len(fields) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")

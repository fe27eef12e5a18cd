"""Reads from the metrics pages of frontends how many requests they have answered, and how many with errors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from epd_operator.backends import dynamo
from epd_operator.loads.fetch import FetchError, fetch, open_session
from epd_operator.loads.targets import Target
from epd_operator.loads.text_format import Finder
from epd_operator.plan.observation import Answered

CONNECTIONS = 8
PAGE_SECONDS = 2.0
PAGE_BYTES = 2 * 1024 * 1024
"""Real pages have about 100 kB."""

_FINDER = Finder((dynamo.SERVED_REQUESTS, dynamo.DISCONNECTED_CLIENTS))


def answered_in(page: bytes) -> Answered | None:
    """The numbers since the start of the frontend; None if the page does not have them. Never raises an error."""
    samples = _FINDER.find(page)
    requests = samples.total(dynamo.SERVED_REQUESTS)
    if requests is None:
        # Before its first request, a frontend does not have the metric.
        is_new = samples.has(dynamo.DISCONNECTED_CLIENTS) and not samples.has(dynamo.SERVED_REQUESTS)
        return Answered() if is_new else None
    failed = sum(samples.total(dynamo.SERVED_REQUESTS, error_type=kind) or 0.0 for kind in dynamo.SERVER_ERRORS)
    return Answered(requests=int(requests), failed=min(int(failed), int(requests)))


async def read_answered(targets: Sequence[Target]) -> Mapping[str, Answered]:
    """The numbers of each frontend by name of its pod; those whose page cannot be read are missing."""
    async with open_session(connections=CONNECTIONS) as session:
        slots = asyncio.Semaphore(CONNECTIONS)

        async def read(target: Target) -> Answered | None:
            async with slots:
                try:
                    async with asyncio.timeout(PAGE_SECONDS):
                        return answered_in(await fetch(session, target.url, max_bytes=PAGE_BYTES))
                except (FetchError, TimeoutError):
                    return None

        found = await asyncio.gather(*(read(target) for target in targets))
    return {target.pod: answered for target, answered in zip(targets, found, strict=True) if answered is not None}

"""The numbers by which frontends know workers, from the metrics pages of these."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from epd_operator.backends.dynamo import IN_FLIGHT_REQUESTS, INSTANCE_LABEL
from epd_operator.loads.fetch import FetchError, fetch
from epd_operator.loads.targets import Target
from epd_operator.loads.text_format import Finder

PAGE_SECONDS = 5.0
_PAGE_BYTES = 2 * 1024 * 1024
_FINDER = Finder([IN_FLIGHT_REQUESTS])
_INSTANCE = re.compile(r"[0-9a-f]{1,16}")


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A worker: name of its pod, and its number in Dynamo's discovery."""

    pod: str
    instance: int


async def read_workers(session: aiohttp.ClientSession, targets: Sequence[Target]) -> tuple[Worker, ...] | None:
    """The workers with these pages; None if a page cannot be read, or does not contain the number."""
    workers = []
    for target in targets:
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                page = await fetch(session, target.url, max_bytes=_PAGE_BYTES)
        except (FetchError, TimeoutError):
            return None
        instance = instance_in(page)
        if instance is None:
            return None
        workers.append(Worker(pod=target.pod, instance=instance))
    return tuple(workers)


def instance_in(page: bytes) -> int | None:
    """The number of the process with this page. The page is untrusted."""
    samples = _FINDER.find(page).by_name.get(IN_FLIGHT_REQUESTS) or ()
    found = {s.labels.get(INSTANCE_LABEL, "") for s in samples if s.labels.get("dynamo_endpoint") == "generate"}
    text = found.pop() if len(found) == 1 else ""
    return int(text, 16) if _INSTANCE.fullmatch(text) else None

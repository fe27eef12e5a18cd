"""Health of one process: pure functions over the answers of its health page, and the loop that requests it.

Dynamo's system server writes a line to its log for each error answer, and its health page answers with status 503 for
as long as the model loads. Its metrics page causes no line, and shows the endpoint of the process from the moment at
which the health page answers with status 200 (observed with Dynamo 1.6.1). So this page is read first.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from epd_worker.fetch import FetchedPage, PageError, PageTimeoutError, fetch
from epd_worker.metrics import MAX_PAGE, in_flight
from epd_worker.spec import ProcessSpec, Role

POLL_INTERVAL = 1.0
START_INTERVAL = 0.25
"""Pause between the first checks of a process that starts: the next process of a group waits for it."""
START_SHARE = 0.1
"""This pause grows with the time since the start, so that it delays readiness by at most this share."""
ERROR_PAUSE = 10.0
"""Pause after an error answer. Dynamo writes a line to its log for each."""
UNANNOUNCED_INTERVAL = 60.0
"""Time between requests to the health page of a process whose metrics page does not show its endpoint, so that a
version of Dynamo with other metrics becomes ready as well."""
POLL_TIMEOUT = 2.0
TOLERATED_SLOW_ANSWERS = 2

Fetch = Callable[[str], Awaitable[FetchedPage]]


@dataclass(frozen=True)
class ProcessHealth:
    """The health of a process.

    Attributes:
        healthy: whether it is healthy now.
        ever: whether it has ever been healthy.
        slow_in_a_row: number of successive requests without an answer in time.
        error_answer: whether the last answer had an error status.
        reason: why it is not healthy.
    """

    healthy: bool = False
    ever: bool = False
    slow_in_a_row: int = 0
    error_answer: bool = False
    reason: str = "not checked yet"


def after_answer(health: ProcessHealth, *, status: int) -> ProcessHealth:
    """Return the health after an HTTP answer: 2xx is healthy, any other status is unhealthy at once."""
    if 200 <= status < 300:
        return ProcessHealth(healthy=True, ever=True, reason="")
    return ProcessHealth(ever=health.ever, error_answer=True, reason=f"its health page returned HTTP {status}")


def after_slow(health: ProcessHealth, *, reason: str) -> ProcessHealth:
    """Return the health after no answer in time: a healthy process may be busy, so it stays healthy twice in a row."""
    slow = health.slow_in_a_row + 1
    if health.healthy and slow <= TOLERATED_SLOW_ANSWERS:
        return ProcessHealth(healthy=True, ever=True, slow_in_a_row=slow, reason=reason)
    return ProcessHealth(ever=health.ever, slow_in_a_row=slow, reason=reason)


def after_error(health: ProcessHealth, *, reason: str) -> ProcessHealth:
    """Return the health after a refused connection or an invalid answer: unhealthy at once."""
    return ProcessHealth(ever=health.ever, reason=reason)


def after_no_model(health: ProcessHealth) -> ProcessHealth:
    """Return the health after an empty list of models: the process runs, but cannot serve a request yet."""
    return ProcessHealth(ever=health.ever, reason="its list of models is still empty")


def pause(health: ProcessHealth, *, unhealthy_for: float) -> float:
    """Return the seconds until the next check of a process that has not been healthy for `unhealthy_for` seconds."""
    if health.error_answer:
        return ERROR_PAUSE
    if health.ever:
        return POLL_INTERVAL
    return min(max(unhealthy_for * START_SHARE, START_INTERVAL), POLL_INTERVAL)


async def fetch_health(url: str) -> FetchedPage:
    """Read a page within the limits of one check."""
    return await fetch(url, timeout=POLL_TIMEOUT, limit=MAX_PAGE)


async def observe(
    health: ProcessHealth, *, url: str, models_url: str | None = None, fetch_page: Fetch = fetch_health
) -> ProcessHealth:
    """Check once and return the new health; failures of the process are part of the result and not raised.

    Until the process is healthy for the first time, the list of models at `models_url` (OpenAI's API) must contain a
    model: the health page of a frontend answers 200 before it has discovered a worker. Later the list is not checked,
    because a model disappears when its workers do, and not when the frontend fails.
    """
    try:
        page = await fetch_page(url)
        if models_url is not None and not health.ever and page.status == 200:
            models = await fetch_page(models_url)
            if not lists_a_model(models):
                return after_no_model(health)
    except PageTimeoutError as error:
        return after_slow(health, reason=str(error))
    except PageError as error:
        return after_error(health, reason=str(error))
    return after_answer(health, status=page.status)


async def observe_start(*, process: ProcessSpec, fetch_page: Fetch = fetch_health) -> ProcessHealth | None:
    """Return why a process that starts cannot be healthy yet, or None if its health page must be asked.

    A frontend has no such sign: its metrics page is the same before and after it has discovered a model.
    """
    if process.role is Role.FRONTEND:
        return None
    try:
        page = await fetch_page(process.metrics_url)
    except PageError as error:
        return ProcessHealth(reason=str(error))
    if in_flight(process.role, page.body.decode(errors="replace")) is not None:
        return None
    return ProcessHealth(reason="it has not registered its endpoint yet")


def lists_a_model(page: FetchedPage) -> bool:
    """Whether a page is a list of models (OpenAI's API) with at least one model."""
    try:
        document = json.loads(page.body)
    except (ValueError, RecursionError):
        return False
    return page.status == 200 and isinstance(document, dict) and bool(document.get("data"))


@dataclass(frozen=True)
class Check:
    """The result of a check of a process.

    Attributes:
        health: the health of the process after it.
        paused: the pause that was planned before it, in seconds.
        took: how long it took, in seconds.
    """

    health: ProcessHealth
    paused: float
    took: float


async def watch(
    process: ProcessSpec,
    on_check: Callable[[Check], None],
    *,
    fetch_page: Fetch = fetch_health,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Check in a loop and pass each result to `on_check`, until the task is cancelled."""
    health = ProcessHealth()
    last_healthy = last_asked = clock()
    paused = 0.0
    while True:
        began = clock()
        found = None
        if not health.ever and began - last_asked < UNANNOUNCED_INTERVAL:
            found = await observe_start(process=process, fetch_page=fetch_page)
        if found is None:
            last_asked = began
            found = await observe(health, url=process.health_url, models_url=process.models_url, fetch_page=fetch_page)
        health = found
        ended = clock()
        if health.healthy:
            last_healthy = ended
        on_check(Check(health=health, paused=paused, took=ended - began))
        paused = pause(health, unhealthy_for=ended - last_healthy)
        await sleep(paused)

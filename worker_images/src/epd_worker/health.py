"""Readiness of one process: a pure tracker of health answers, and the loop that feeds it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from epd_worker.fetch import FetchError, FetchTimeoutError, Page, fetch

POLL_INTERVAL = 1.0
# Until it is healthy for the first time: refused connections cost nothing, and the group's next process waits for it.
START_INTERVAL = 0.25
POLL_TIMEOUT = 2.0
TOLERATED_SLOW_ANSWERS = 2
_MAX_PAGE = 64 * 1024

Fetch = Callable[[str], Awaitable[Page]]


@dataclass(frozen=True)
class Health:
    """What is known of a process. `reason` says why it is not healthy; `ever` that it once was."""

    healthy: bool = False
    ever: bool = False
    slow_in_a_row: int = 0
    reason: str = "not asked yet"


def after_answer(health: Health, *, status: int) -> Health:
    """Take an HTTP answer: 2xx is healthy, anything else is believed at once."""
    if 200 <= status < 300:
        return Health(healthy=True, ever=True, reason="")
    return Health(ever=health.ever, reason=f"its health page answers {status}")


def after_slow(health: Health, *, reason: str) -> Health:
    """Take a missing answer: a healthy process may be busy, so the first two in a row change nothing."""
    slow = health.slow_in_a_row + 1
    if health.healthy and slow <= TOLERATED_SLOW_ANSWERS:
        return Health(healthy=True, ever=True, slow_in_a_row=slow)
    return Health(ever=health.ever, slow_in_a_row=slow, reason=reason)


def after_error(health: Health, *, reason: str) -> Health:
    """Take a refused connection or nonsense: the process does not serve."""
    return Health(ever=health.ever, reason=reason)


def after_no_model(health: Health) -> Health:
    """Take an empty list of models: the process is well but cannot answer any request yet."""
    return Health(ever=health.ever, reason="it lists no model yet")


async def fetch_health(url: str) -> Page:
    """Read a health page within the poll's bounds."""
    return await fetch(url, timeout=POLL_TIMEOUT, limit=_MAX_PAGE)


async def observe(
    health: Health, *, url: str, models_url: str | None = None, fetch_page: Fetch = fetch_health
) -> Health:
    """Ask once and return what is known now; never raises for what the process does.

    Until a process was healthy for the first time, `models_url` (OpenAI's list of models) must list one as well: a
    frontend is healthy before it knows any worker. A model that is lost later is not the frontend's fault.
    """
    try:
        page = await fetch_page(url)
        if models_url is not None and not health.ever and page.status == 200:
            models = await fetch_page(models_url)
            if not lists_a_model(models):
                return after_no_model(health)
    except FetchTimeoutError as error:
        return after_slow(health, reason=str(error))
    except FetchError as error:
        return after_error(health, reason=str(error))
    return after_answer(health, status=page.status)


def lists_a_model(page: Page) -> bool:
    """Whether a page is a list of models, as OpenAI's API answers it, with at least one in it."""
    try:
        document = json.loads(page.body)
    except (ValueError, RecursionError):
        return False
    return page.status == 200 and isinstance(document, dict) and bool(document.get("data"))


async def watch(
    url: str,
    on_change: Callable[[Health], None],
    *,
    models_url: str | None = None,
    fetch_page: Fetch = fetch_health,
) -> None:
    """Poll for ever, telling `on_change` every observation; ends by cancellation only."""
    health = Health()
    while True:
        health = await observe(health, url=url, models_url=models_url, fetch_page=fetch_page)
        on_change(health)
        await asyncio.sleep(POLL_INTERVAL if health.ever else START_INTERVAL)

"""Waits of the tests: each for the state that the test needs, as long as a busy machine may take for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE_SECONDS = 300.0
"""Time limit of every wait. It only ends a broken run, so it is long: idle cores need a few seconds."""

POLL_SECONDS = 0.1


def wait_for(what: str, holds: Callable[[], object], *, check: Callable[[], object] = lambda: None) -> None:
    """Wait until something holds.

    Args:
        what: what is waited for, for the error.
        holds: whether it holds.
        check: raises if it can never hold, for example because a process has ended.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_SECONDS:.0f} s: {what}")
        time.sleep(POLL_SECONDS)


async def eventually(holds: Callable[[], Awaitable[bool]], *, state: Callable[[], Awaitable[object]]) -> None:
    """Wait until something holds; the error has the state."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_SECONDS:.0f} s: {await state()}")
        await asyncio.sleep(POLL_SECONDS)

"""Follows a rollout until it is done, needs a person, or the time is over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from epd_operator.cluster.errors import UnavailableError
from epdctl.rollout.progress import Outcome, Progress, progress_of
from epdctl.rollout.session import CommandError
from epdctl.rollout.text import progress_lines

POLL_SECONDS = 2.0


async def follow(
    read: Callable[[], Awaitable[dict[str, Any]]],
    *,
    timeout_seconds: float,
    echo: Callable[[str], None],
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Print what changes until the rollout is done.

    Args:
        read: reads the object.
        timeout_seconds: longest time to wait, in seconds; 0 for no limit.
        echo: prints.
        clock: seconds since any start.
        sleep: waits for seconds.

    Raises:
        CommandError: a person has to act, the time is over, or the object was deleted.
        ClusterError: the object cannot be read. If the API server was reached once, an outage does not end the wait.
    """
    started = clock()
    printed: tuple[str, ...] = ()
    last: Progress | None = None
    while True:
        try:
            last = progress_of(await read())
            lines = progress_lines(last)
        except UnavailableError as error:
            if last is None:
                raise
            lines = (f"the API server does not answer, trying again: {error.message}",)
        for line in lines:
            if line not in printed:
                echo(line)
        printed = lines
        if last.outcome is Outcome.DONE:
            return
        if last.outcome is Outcome.NEEDS_PERSON:
            raise CommandError(f"the rollout does not continue without a person: {last.waits_for}")
        if timeout_seconds and clock() - started >= timeout_seconds:
            raise CommandError(f"the rollout is not complete after {timeout_seconds:g} s: {last.waits_for}")
        await sleep(POLL_SECONDS)

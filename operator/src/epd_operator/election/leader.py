"""What only the leader does, its orderly end, and the fence around it."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from epd_operator.election.elector import Elector

logger = logging.getLogger(__name__)

FINISH_SECONDS = 5.0
"""So long passes that are going on may take to end by themselves when the operator stops."""

WATCH_STOP_SECONDS = 5.0
POLL_SECONDS = 0.05
FENCE_TICK_SECONDS = 0.25
EXIT_CODE = 70

Job = Callable[[], Coroutine[Any, Any, None]]


class Reconciles(Protocol):
    """The queue, as far as its end is concerned."""

    def close(self) -> None:
        """Hand out no more keys."""

    def longest_pass(self) -> float:
        """How long the pass that began first has been going on; 0 while there is none."""


class LeaderTasks:
    """Runs the jobs together until it is told to stop; the end of one is the end of all."""

    def __init__(self, *, passes: Reconciles, jobs: Sequence[Job], watch: Job) -> None:
        """Create it; nothing runs yet.

        Args:
            passes: the queue of keys.
            jobs: what writes, or causes writes.
            watch: what only reads; it may take a while to end.
        """
        self._passes = passes
        self._jobs = jobs
        self._watch = watch
        self.active = False
        self.cut_off = False

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop``, or until cancelled, or until a job ends.

        Raises:
            RuntimeError: a job ended that should not.
        """
        self.active = True
        jobs = [asyncio.create_task(job()) for job in self._jobs]
        watch = asyncio.create_task(self._watch())
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([*jobs, watch, stopped], return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                await self._finish_passes()
            for task in (*jobs, watch):
                if task.done() and not stop.is_set():
                    task.result()
                    raise RuntimeError("a task of the operator has ended")
        finally:
            # A pass that is cut off may have sent a write that is yet to be carried out.
            self.cut_off = self._passes.longest_pass() > 0
            await _cancel([*jobs, stopped], seconds=None)
            self.active = False
            await _cancel([watch], seconds=WATCH_STOP_SECONDS)

    async def _finish_passes(self) -> None:
        self._passes.close()
        for _ in range(round(FINISH_SECONDS / POLL_SECONDS)):
            if self._passes.longest_pass() == 0:
                return
            await asyncio.sleep(POLL_SECONDS)


async def _cancel(tasks: Sequence[asyncio.Task[Any]], *, seconds: float | None) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=seconds)
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception() is not None:
            logger.debug("ended with %r", task.exception())


async def run_while_leading(leadership: Elector, *, duty: LeaderTasks, stop: asyncio.Event) -> None:
    """Wait for the Lease, work, and give it up when told to stop.

    Raises:
        LeadershipLostError: all work has ended, because somebody else may work.
    """
    if not await _unless(stop, leadership.win()):
        await leadership.release()
        return
    keeping = asyncio.create_task(leadership.keep())
    working = asyncio.create_task(duty.run(stop))
    try:
        await asyncio.wait([keeping, working], return_when=asyncio.FIRST_COMPLETED)
    finally:
        held = not keeping.done()
        # Until the last pass has ended, the Lease is renewed.
        await _cancel([working], seconds=None)
        await _cancel([keeping], seconds=None)
        if held and leadership.may_work() and not duty.cut_off:
            await leadership.release()
    for task in (keeping, working):
        if not task.cancelled():
            task.result()


async def _unless(stop: asyncio.Event, awaitable: Awaitable[None]) -> bool:
    """Await something; false if told to stop before it ended."""
    task, stopped = asyncio.ensure_future(awaitable), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return False
        task.result()
        return not stop.is_set()
    finally:
        await _cancel([task, stopped], seconds=None)


def fence(leadership: Elector, *, duty: LeaderTasks, end: Callable[[int], object] = os._exit) -> threading.Thread:
    """Watch from a thread that work ends in time, even when the event loop is stuck; else end the process."""

    def watch() -> None:
        while not (duty.active and leadership.overdue() > leadership.timing.grace):
            time.sleep(FENCE_TICK_SECONDS)
        logger.critical("the lease was not renewed in time and the work could not be stopped: the process ends")
        end(EXIT_CODE)

    thread = threading.Thread(target=watch, name="fence", daemon=True)
    thread.start()
    return thread

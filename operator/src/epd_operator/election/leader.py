"""Runs the tasks that only the leader runs, stops them in order, and ends the process if they cannot be stopped."""

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

SHUTDOWN_SECONDS = 5.0
"""When the operator stops, running reconciles have this time to finish."""

WATCH_STOP_SECONDS = 5.0
POLL_SECONDS = 0.05
FENCE_POLL_SECONDS = 0.25
FENCE_EXIT_CODE = 70

Job = Callable[[], Coroutine[Any, Any, None]]


class ReconcileQueue(Protocol):
    """The part of the work queue that is needed to stop it."""

    def close(self) -> None:
        """Hand out no more keys."""

    def longest_reconcile(self) -> float:
        """Seconds since the start of the longest running reconcile; 0 if none is running."""


class LeaderTasks:
    """The tasks of the leader. They run together: if one ends, all are stopped.

    Attributes:
        active: whether the tasks are running.
        interrupted: whether the last run was stopped while a reconcile was running.
    """

    def __init__(self, *, queue: ReconcileQueue, jobs: Sequence[Job], watch: Job) -> None:
        """Create the tasks. Nothing runs yet.

        Args:
            queue: the queue of keys.
            jobs: tasks that write objects, or cause writes.
            watch: the task that watches objects; it only reads, and may take some time to end.
        """
        self._queue = queue
        self._jobs = jobs
        self._watch = watch
        self.active = False
        self.interrupted = False

    async def run(self, stop: asyncio.Event) -> None:
        """Run all tasks until ``stop`` is set, until cancelled, or until one task ends.

        Raises:
            RuntimeError: a task ended unexpectedly.
        """
        self.active = True
        jobs = [asyncio.create_task(job()) for job in self._jobs]
        watch = asyncio.create_task(self._watch())
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([*jobs, watch, stopped], return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                await self._finish_reconciles()
            for task in (*jobs, watch):
                if task.done() and not stop.is_set():
                    task.result()
                    raise RuntimeError("a task of the operator ended unexpectedly")
        finally:
            # A reconcile that is cancelled may have sent a write that the API server has not executed yet.
            self.interrupted = self._queue.longest_reconcile() > 0
            await _cancel([*jobs, stopped], seconds=None)
            self.active = False
            await _cancel([watch], seconds=WATCH_STOP_SECONDS)

    async def _finish_reconciles(self) -> None:
        """Start no more reconciles, and wait a limited time for the running ones."""
        self._queue.close()
        for _ in range(round(SHUTDOWN_SECONDS / POLL_SECONDS)):
            if self._queue.longest_reconcile() == 0:
                return
            await asyncio.sleep(POLL_SECONDS)


async def _cancel(tasks: Sequence[asyncio.Task[Any]], *, seconds: float | None) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=seconds)
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception() is not None:
            logger.debug("a cancelled task ended with %r", task.exception())


async def run_while_leading(elector: Elector, *, tasks: LeaderTasks, stop: asyncio.Event) -> None:
    """Acquire the Lease, run the leader tasks, and release the Lease when ``stop`` is set.

    Raises:
        LeadershipLostError: this replica is not the leader any more; all leader tasks have ended.
    """
    if not await _run_unless_stopped(stop, elector.acquire()):
        await elector.release()
        return
    renewing = asyncio.create_task(elector.renew_until_lost())
    running = asyncio.create_task(tasks.run(stop))
    try:
        await asyncio.wait([renewing, running], return_when=asyncio.FIRST_COMPLETED)
    finally:
        lease_held = not renewing.done()
        # The Lease is renewed until the last reconcile has ended.
        await _cancel([running], seconds=None)
        await _cancel([renewing], seconds=None)
        # After an interrupted reconcile, the Lease must expire: the last write of that reconcile may still be executed.
        if lease_held and elector.is_leader() and not tasks.interrupted:
            await elector.release()
    for task in (renewing, running):
        if not task.cancelled():
            task.result()


async def _run_unless_stopped(stop: asyncio.Event, awaitable: Awaitable[None]) -> bool:
    """Await something until it ends or ``stop`` is set. Returns whether it ended before ``stop`` was set."""
    task, stopped = asyncio.ensure_future(awaitable), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return False
        task.result()
        return not stop.is_set()
    finally:
        await _cancel([task, stopped], seconds=None)


def start_fence(
    elector: Elector, *, tasks: LeaderTasks, exit_process: Callable[[int], object] = os._exit
) -> threading.Thread:
    """Start a thread that ends the process if leader tasks still run after the renew deadline and the grace time.

    It is a thread because the event loop may be blocked, so that the tasks cannot be stopped.
    """

    def check() -> None:
        while not (tasks.active and elector.overdue() > elector.timing.grace):
            time.sleep(FENCE_POLL_SECONDS)
        logger.critical("the Lease was not renewed in time and the leader tasks did not stop: the process exits")
        exit_process(FENCE_EXIT_CODE)

    thread = threading.Thread(target=check, name="fence", daemon=True)
    thread.start()
    return thread

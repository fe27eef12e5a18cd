"""An event loop in virtual time: hours take no real time, and nothing depends on the speed of the machine."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _NoWait(selectors.SelectSelector):
    """Advances the clock of its loop instead of waiting for I/O, of which there is none."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("deadlock: no timer and no task is left")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time starts at 0."""

    def __init__(self) -> None:
        self._jumps = _NoWait()
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.now

    def freeze(self, seconds: float) -> None:
        """Let time pass without running anything, as if the process was paused."""
        self._jumps.now += seconds


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)

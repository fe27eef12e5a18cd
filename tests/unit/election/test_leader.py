"""The fence, which ends a process that works without the Lease."""

from __future__ import annotations

from epd_operator.election.leader import start_fence
from epd_operator.election.rules import Timing

TIMING = Timing()


class Frozen:
    """An elector that does not lead any more, and leader tasks that are still running."""

    active = True
    timing = TIMING

    def __init__(self) -> None:
        self.over = -5.0

    def overdue(self) -> float:
        self.over += 1.0
        return self.over


def test_the_fence_ends_a_process_that_works_after_its_lease_has_expired() -> None:
    ended: list[int] = []
    frozen = Frozen()
    thread = start_fence(frozen, tasks=frozen, exit_process=ended.append)  # type: ignore[arg-type]
    thread.join(timeout=60)
    assert ended == [70]
    assert frozen.over > TIMING.grace

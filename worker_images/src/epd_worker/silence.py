"""How long a process that was ready has not answered its health check with success.

Pure functions: the launcher ends when this is too long, so that the kubelet restarts the container.
"""

from __future__ import annotations

from dataclasses import dataclass

from epd_worker.health import POLL_TIMEOUT, Check

_LATE_SECONDS = 1.0
"""A check that took this much longer than its time limit shows that the launcher itself did not run."""


@dataclass(frozen=True)
class Silence:
    """Time without a healthy answer, in seconds.

    Only time that the launcher spent with its checks is counted: planned pauses, and checks that ended within their
    time limit. So a pause of the launcher itself does not count: a stopped pod, a suspended machine, or a busy one.
    """

    seconds: float = 0.0

    def after(self, check: Check) -> Silence:
        """Return the silence after a check."""
        health = check.health
        if not health.ever or (health.healthy and health.slow_in_a_row == 0):
            return Silence()
        if check.took > POLL_TIMEOUT + _LATE_SECONDS:
            return self
        return Silence(self.seconds + check.paused + check.took)


def describe_silence(*, name: str, silence: Silence, reason: str, uptime: float) -> str:
    """Describe which process is ended, after how long without a healthy answer, and what the last answer was."""
    return (
        f"process {name} was ended after {silence.seconds:.0f} s without a healthy answer, {uptime:.0f} s after its "
        f"start; last answer: {reason}; if it could still react, the stacks of its threads are in the log"
    )

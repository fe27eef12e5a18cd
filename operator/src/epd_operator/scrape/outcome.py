"""How reading a page ended, for the operator's metrics."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from epd_operator.plan.identity import StageName


class Outcome(StrEnum):
    """Everything but OK leaves the pod without values.

    UNREACHABLE: no connection, or one that was reset. ROUND_OVER: its turn did not come, or did not end, before the
    round did. PROTOCOL: not HTTP, or cut short. UNREADABLE: a page that does not tell the requests. FAULT: ours; see
    the log.
    """

    OK = "ok"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    ROUND_OVER = "round-over"
    STATUS = "status"
    TOO_LARGE = "too-large"
    COMPRESSED = "compressed"
    PROTOCOL = "protocol"
    UNREADABLE = "unreadable"
    FAULT = "fault"


PageObserver = Callable[[StageName, Outcome], None]
"""Called with stage and outcome for every page."""


def ignore_page(_stage: StageName, _outcome: Outcome) -> None:
    """The observer that observes nothing."""

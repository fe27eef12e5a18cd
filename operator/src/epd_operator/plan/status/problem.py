"""Why something is not ready."""

from __future__ import annotations

from dataclasses import dataclass

from epd_operator.plan.status.reasons import Reason

MAX_MESSAGE = 4096
"""Longest message of a stage or condition, in characters."""


@dataclass(frozen=True)
class Problem:
    """Why something is not ready."""

    reason: Reason
    message: str


def most_urgent(problems: list[Problem]) -> Problem | None:
    """The most urgent problem; the first of several with the same rank."""
    return min(problems, key=lambda p: p.reason.traits.rank, default=None)

"""What the installation decides for all objects alike."""

from __future__ import annotations

from dataclasses import dataclass

WORKER_ROLE = "epd-worker-discovery"
"""Comes with the chart. Bound by name, so that the operator needs no right of its own on what the role grants."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the planner.

    Attributes:
        worker_role: ClusterRole that is bound for the pods.
    """

    worker_role: str = WORKER_ROLE

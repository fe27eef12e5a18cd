"""Keys of objects."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Key:
    """Namespace and name of an EPDDeployment."""

    namespace: str
    name: str

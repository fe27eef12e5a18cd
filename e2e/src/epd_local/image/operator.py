"""operator image (placeholder while the rest is brought up)."""

from __future__ import annotations

from pathlib import Path

from epd_local.errors import LocalClusterError
from epd_local.locations import Locations


def operator_image(where: Locations) -> Path:
    """Return the archive."""
    raise LocalClusterError("not there yet")

"""Hashes of plain data."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(value: Any, *, length: int) -> str:
    """The first ``length`` hexadecimal characters of a hash. Equal data has equal hashes, in any order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:length]

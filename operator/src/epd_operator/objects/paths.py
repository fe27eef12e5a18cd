"""Paths of folders in pods."""

from __future__ import annotations

import posixpath
from pathlib import PurePosixPath


def normal(path: str) -> PurePosixPath:
    """The path as container runtimes read it: without empty parts, ``.`` and ``..``.

    The API refuses such parts, but an object can be older than that rule.
    """
    root = "/" if path.startswith("/") else ""  # posixpath keeps two slashes at the start
    return PurePosixPath(posixpath.normpath(root + path.lstrip("/")))

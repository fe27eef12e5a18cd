"""Paths in pods."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from epd_operator.objects.paths import normal


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data", "/data"),
        ("/data/", "/data"),
        ("//var//cache/./worker", "/var/cache/worker"),
        ("///a", "/a"),
        ("/a/../dev/shm", "/dev/shm"),
        ("/..", "/"),
        ("/", "/"),
        ("a/./b/", "a/b"),
        ("../a", "../a"),
        ("", "."),
    ],
)
def test_all_spellings_of_a_path_are_equal(path: str, expected: str) -> None:
    assert normal(path) == PurePosixPath(expected)

"""Warnings of the API server in the log."""

from __future__ import annotations

import pytest

from epd_operator.cluster.warnings import MAX_HEADERS, MAX_KNOWN, Warnings


def test_memory_and_log_lines_for_warnings_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    warnings = Warnings()
    for number in range(MAX_KNOWN + 10):
        warnings.log_new([f'299 - "{number} {"x" * 10_000}"'], request="GET /")
    assert len(warnings._known) == MAX_KNOWN
    assert max(len(record.getMessage()) for record in caplog.records) < 600
    caplog.clear()
    warnings.log_new([f'299 - "of one answer {number}"' for number in range(1000)], request="GET /")
    assert len(caplog.records) == MAX_HEADERS
